"""The root of the hierarchy, and errors of the caller: settings, names, arguments."""

from __future__ import annotations

import errno
import os


class StratalogError(Exception):
    """The root: catching it catches every error that Stratalog raises on purpose."""

    def on_host(self, host: str) -> StratalogError:
        """The same error, with the host's name in its message. Pickling it again loses the name."""
        words = str(self)
        if host not in words:
            self.args = (f"{words} (on host {host})",)
        return self


class _PathError(StratalogError):  # not in the tree of `__init__.py`: a base of some errors
    """Something is wrong with one file or directory: `path` and `reason` say which and what."""

    def __init__(self, path: str | os.PathLike[str], reason: str, words: str | None = None) -> None:
        self.path = os.fspath(path)
        self.reason = reason
        super().__init__(f"{self.path}: {reason}" if words is None else words)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.reason)


class ConfigError(StratalogError, ValueError):
    """A setting that Kafka would refuse; `key` is Kafka's name for it."""

    def __init__(self, key: str, value: object, reason: str) -> None:
        self.key = key
        self.value = value
        self.reason = reason
        super().__init__(f"{key} = {value}: {reason}.")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.key, self.value, self.reason)


class InvalidNameError(StratalogError, ValueError):
    """A file or directory name that no broker accepts."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"{name!r}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.name, self.reason)


class MissingDependencyError(StratalogError, ImportError):
    """An optional part is not installed; the message says how to get it."""


class UsageError(StratalogError, ValueError):
    """Arguments that contradict each other or name nothing."""


class SchemaError(UsageError):
    """A schema that is not valid, or that cannot become a column."""


class WrongTypeError(UsageError, TypeError):
    """An argument of a type that the call does not accept."""


class MissingPathError(UsageError, FileNotFoundError):
    """A path that the caller named does not exist."""

    def __init__(self, path: str | os.PathLike[str], remedy: str) -> None:
        self.path = os.fspath(path)
        self.remedy = remedy
        super().__init__(f"{self.path} does not exist. {remedy}")
        self.errno, self.filename = errno.ENOENT, self.path  # like Python's own error

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.remedy)
