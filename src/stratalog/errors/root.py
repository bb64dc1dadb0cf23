"""The root of the hierarchy, and errors of the caller: settings, names, arguments."""

from __future__ import annotations

import os


class StratalogError(Exception):
    """The root: catching it catches every error that Stratalog raises on purpose."""


class _PathError(StratalogError):  # not in the tree above: a base that some errors share
    """Something is wrong with one file or directory: `path` and `reason` say which and what."""

    def __init__(self, path: str | os.PathLike[str], reason: str, words: str | None = None) -> None:
        self.path = os.fspath(path)
        self.reason = reason
        super().__init__(f"{self.path}: {reason}" if words is None else words)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.reason)


class ConfigError(StratalogError):
    """A setting that Kafka would refuse; `key` is Kafka's name for it."""

    def __init__(self, key: str, value: object, reason: str) -> None:
        self.key = key
        self.value = value
        self.reason = reason
        super().__init__(f"{key} = {value}: {reason}.")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.key, self.value, self.reason)


class InvalidNameError(StratalogError):
    """A file or directory name that no broker accepts."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"{name!r}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.name, self.reason)


class MissingDependencyError(StratalogError):
    """An optional part is not installed; the message says how to get it."""


class UsageError(StratalogError):
    """Arguments that contradict each other or name nothing."""


class SchemaError(UsageError):
    """A schema that is not valid, or that cannot become a column."""
