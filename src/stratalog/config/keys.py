"""What a setting is: how its text is read, which values it takes, its names on a broker. Kafka: ConfigDef."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import Field, field, fields
from difflib import get_close_matches
from functools import cache
from typing import Any, ClassVar, NamedTuple, Protocol

from stratalog.errors import ConfigError, WrongTypeError
from stratalog.limits import INT32_MAX, INT64_MAX

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

ConfigValue = str | int | float | bool | frozenset[str] | tuple[str, ...] | list[str] | None


class ConfigKey(NamedTuple):
    """One setting: how its text is read, which values it takes, its names on a broker."""

    kind: str  # int, long, double, boolean, string, list
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    also: tuple[int, ...] = ()  # values outside the range that are allowed too
    # Pairs of a broker setting and the factor for its value; the first one that is set wins.
    broker: tuple[tuple[str, int], ...] = ()

    @property
    def range(self) -> str:
        """The legal values in words."""
        if self.choices:
            listed = ", ".join(self.choices)
            return f"a comma-separated list of {listed}" if self.kind == "list" else f"one of {listed}"
        what = _WORDS[self.kind]
        if self.low is not None and self.high is not None:
            what += f" from {self.low} to {self.high}"
        elif self.low is not None:
            what += f" of at least {self.low}"
        return what + "".join(f", or {value}" for value in self.also)


_WORDS = {
    "int": "a whole number of 32 bits",
    "long": "a whole number of 64 bits",
    "double": "a number",
    "boolean": "true or false",
    "string": "text",
    "list": "a comma-separated list",
}


# Returns Any, as `field` does in the standard library's stubs: a field has the type of its default.
def setting(default: Any, kind: str, *broker: str | tuple[str, int], **rest: Any) -> Any:
    names = tuple((name, 1) if isinstance(name, str) else name for name in broker)
    return field(default=default, metadata={"key": ConfigKey(kind, broker=names, **rest)})


class Configuration(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


@cache
def config_keys(kind: type[Configuration]) -> dict[str, ConfigKey]:
    """The settings of a configuration class, by Kafka's names."""
    return {kafka_name(entry.name): entry.metadata["key"] for entry in fields(kind)}


def parse_value(name: str, key: ConfigKey, value: ConfigValue) -> Any:
    """The value as Kafka reads it from text, or as given if it already has its type; else ConfigError."""
    refusal = ConfigError(name, value, f"it must be {key.range}")
    text = value.strip() if isinstance(value, str) else None
    if key.kind == "boolean":
        if isinstance(value, bool):
            return value
        if text is None or text.lower() not in ("true", "false"):
            raise refusal
        return text.lower() == "true"
    if key.kind == "string":
        if text is None or (key.choices and text not in key.choices):
            raise refusal
        return text
    if key.kind == "list":
        return _parse_list(key, value, refusal)
    if isinstance(value, bool):
        raise refusal
    return _parse_number(key, value if text is None else text, refusal)


def _parse_list(key: ConfigKey, value: ConfigValue, refusal: ConfigError) -> frozenset[str] | tuple[str, ...]:
    if isinstance(value, str):
        items = re.split(r"\s*,\s*", value.strip()) if value.strip() else []
    elif isinstance(value, list | tuple | frozenset):
        items = list(value)
    else:
        raise refusal
    if not key.choices:
        return tuple(dict.fromkeys(items))
    if not set(items) <= set(key.choices):
        raise refusal
    return frozenset(items)


def _parse_number(key: ConfigKey, value: ConfigValue, refusal: ConfigError) -> int | float:
    number: int | float
    try:
        if key.kind == "double":
            number = float(value) if isinstance(value, str | int | float) else math.nan
        elif isinstance(value, str):
            number = int(value) if re.fullmatch(r"[+-]?[0-9]{1,25}", value) else math.nan
        else:
            number = value if isinstance(value, int) else math.nan
    except ValueError:
        raise refusal from None
    largest = {"int": INT32_MAX, "long": INT64_MAX, "double": math.inf}[key.kind]
    low = -largest - 1 if key.low is None else key.low
    high = largest if key.high is None else key.high
    if number in key.also or low <= number <= min(high, largest):
        return number
    raise refusal


def parse_all(kind: type[Configuration], settings: Mapping[str, ConfigValue]) -> dict[str, Any]:
    if not isinstance(settings, Mapping):
        what = type(settings).__name__
        raise WrongTypeError(
            f"settings must be a dictionary whose keys are Kafka's names; this is of type {what}."
        )
    known = config_keys(kind)
    parsed: dict[str, Any] = {}
    for name, value in settings.items():
        if not isinstance(name, str):
            raise WrongTypeError(f"{name!r} is not the name of a setting.")
        if name not in known:
            raise ConfigError(name, value, _REMOVED.get(name) or _unknown(name, known))
        if value is None and name == "internal.segment.bytes":
            parsed["internal_segment_bytes"] = None
            continue
        parsed[name.replace(".", "_")] = parse_value(name, known[name], value)
    return parsed


def _unknown(name: str, known: Iterable[str]) -> str:
    similar = get_close_matches(name, known, n=1)
    return "there is no such setting" + (f", {similar[0]} may be meant" if similar else "")


def values_of(config: Configuration) -> dict[str, Any]:
    return {entry.name: getattr(config, entry.name) for entry in fields(type(config))}


def check_fields(config: Configuration) -> None:
    """ConfigError if a field that was given to the constructor is out of range."""
    # Fields at their default are skipped: most are, and thousands of logs may be opened.
    given = {
        kafka_name(entry.name): value
        for entry in fields(type(config))
        if (value := getattr(config, entry.name)) is not entry.default
    }
    for name, value in parse_all(type(config), given).items():
        object.__setattr__(config, name, value)  # a list becomes the declared type


def kafka_name(attribute: str) -> str:
    return attribute.replace("_", ".")


_REMOVED = {
    "message.format.version": "Kafka 4.0 removed it: every leader writes the current format",
    "message.timestamp.difference.max.ms": (
        "Kafka 4.0 removed it: use message.timestamp.before.max.ms and message.timestamp.after.max.ms"
    ),
    "message.downconversion.enable": "Kafka 4.0 removed it",
}
