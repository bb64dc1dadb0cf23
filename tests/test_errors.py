"""Every error of ours travels between processes as it is: Spark's workers send theirs to the driver."""

from __future__ import annotations

import builtins
import errno
import inspect
import pickle
import re
from collections.abc import Iterator

import pytest

from stratalog import errors
from stratalog.errors import DiskError, StratalogError
from stratalog.files.refusals import Refusing

ORDINARY = inspect.Parameter.POSITIONAL_OR_KEYWORD


def every_error() -> Iterator[StratalogError]:
    """One error of each kind, with distinct arguments."""
    for kind in vars(errors).values():
        if not inspect.isclass(kind) or not issubclass(kind, StratalogError):
            continue
        _, *parameters = inspect.signature(kind.__init__).parameters.values()
        needed = [each for each in parameters if each.default is each.empty and each.kind is ORDINARY]
        # Annotations are text here.
        made = [
            number if each.annotation == "int" else f"text {number}" for number, each in enumerate(needed)
        ]
        yield kind(*(made or ["text"]))


@pytest.mark.parametrize("error", list(every_error()), ids=lambda error: type(error).__name__)
def test_an_error_arrives_with_its_words_and_its_facts(error: StratalogError) -> None:
    arrived = pickle.loads(pickle.dumps(error))

    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


TREE = re.compile(r"^([│ ]*[├└]── )(\w+)\s.*?(?:\((\w+Error)\))?$", re.MULTILINE)


def python_errors_by_the_tree() -> dict[str, set[type[BaseException]]]:
    """Which of Python's errors each of ours is, as the docstring draws it: its own and those above it."""
    found: dict[str, set[type[BaseException]]] = {}
    above: list[set[type[BaseException]]] = []
    for branch, name, error in TREE.findall(errors.__doc__ or ""):
        depth = len(branch) // 4 - 1
        known = {getattr(builtins, error)} if error else set()
        del above[depth:]
        above.append((above[-1] if above else set()) | known)
        found[name] = above[-1]
    return found


def test_the_tree_has_every_error() -> None:
    assert {*python_errors_by_the_tree(), "StratalogError", "RecordError"} == {*errors.__all__}


@pytest.mark.parametrize("error", list(every_error()), ids=lambda error: type(error).__name__)
def test_an_error_is_also_the_error_of_python_that_it_would_be_elsewhere(error: StratalogError) -> None:
    named = python_errors_by_the_tree().get(type(error).__name__, set())

    are = {kind for kind in type(error).__mro__ if kind.__module__ == "builtins"}
    assert are == {Exception, BaseException, object, *(base for kind in named for base in kind.__mro__)}


def test_a_file_that_is_missing_or_forbidden_is_told_apart_as_python_does() -> None:
    missing = DiskError("data", "could not open it.", errno.ENOENT)
    forbidden = DiskError("data", "could not open it.", errno.EACCES)

    assert isinstance(missing, FileNotFoundError)
    assert isinstance(forbidden, PermissionError)
    assert (missing.filename, missing.errno, str(missing)) == (
        "data",
        errno.ENOENT,
        "data: could not open it.",
    )
    assert not isinstance(DiskError("data", "full", errno.ENOSPC), FileNotFoundError | PermissionError)


def test_a_disk_error_is_not_wrapped_into_another_one() -> None:
    inner = DiskError("inner", "it failed.", errno.EIO)

    with pytest.raises(DiskError) as caught, Refusing("read", "outer"):
        raise inner
    assert caught.value is inner
