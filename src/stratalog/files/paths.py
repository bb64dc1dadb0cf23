"""Paths as text: joined, taken apart, made absolute, quoted. Nothing here touches a disk.

Code that works on log directories uses these functions instead of pathlib: a directory of 20,000 logs has a
hundred thousand names, and a `pathlib.Path` for each takes thirty times as long.
"""

from __future__ import annotations

import os
import shlex
from typing import TypeGuard

from stratalog.errors import UsageError, WrongTypeError
from stratalog.files.entries import Path


def join_path(directory: Path, name: str, *more: str) -> str:
    """The path of a name in a directory, or of a relative path below it."""
    root = directory if type(directory) is str else os.fspath(directory)
    if more:
        name = os.sep.join((name, *more))
    return f"{root}{name}" if not root or root[-1] == os.sep else f"{root}{os.sep}{name}"


def prefix_of(directory: str) -> str:
    """The common start of all paths in a directory."""
    return directory if not directory or directory.endswith(os.sep) else f"{directory}{os.sep}"


def parent_path(path: Path) -> str:
    """The directory that contains a file or directory; "" if the path is only a name."""
    return os.path.dirname(os.fspath(path))


def last_name(path: Path) -> str:
    """The last part of a path: the name of the file or directory."""
    return os.path.basename(os.fspath(path))


def absolute_path(path: Path) -> str:
    """The path from the root on, without `.` and `..`; symbolic links stay as they are."""
    return os.path.abspath(path_text(path))


def path_text(path: Path) -> str:
    """A path that a caller gave, as text; UsageError if it is something else."""
    try:
        text = os.fspath(path)
    except TypeError as error:
        raise WrongTypeError(f"{path!r} is not a path, but of type {type(path).__name__}.") from error
    text = text if isinstance(text, str) else os.fsdecode(text)
    if "\0" in text:
        raise UsageError(f"{text!r} has a null character, which no path can have.")
    return text


def is_path_text(found: object) -> TypeGuard[str]:
    """Whether something from a file is text that can be a path: the system refuses any other with a
    ValueError."""
    if not isinstance(found, str) or "\0" in found:
        return False
    try:
        os.fsencode(found)
    except UnicodeEncodeError:  # half of a pair of surrogates
        return False
    return True


def is_name(found: object) -> TypeGuard[str]:
    """Whether something from a file is the name of one file: it leads to no other directory."""
    return is_path_text(found) and found not in ("", os.curdir, os.pardir) and last_name(found) == found


def command_text(*words: Path) -> str:
    """A command to copy from a message to a shell, with its paths quoted: `stratalog recover 'a b'`."""
    return f"`{shlex.join(['stratalog', *map(path_text, words)])}`"
