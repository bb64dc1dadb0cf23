"""Errors for Python users: `jobs/reading` names Spark's options, but a scan has arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from stratalog.errors import CorruptRecordError, StratalogError

_WORDS = {
    "onCorruption=skip": 'on_corruption="skip"',
    "onCorruption is ": "on_corruption is ",
    "failOnDataLoss=false": "fail_on_data_loss=False",
    "isolation=read_uncommitted": 'isolation="read_uncommitted"',
    "subscribe names ": "topics names ",
    "subscribe is ": "topics is ",
    "assign names ": "offsets names ",
    "startingTimestamp": "since",
    "endingTimestamp": "until",
    "load a Kafka log directory, as in .load('/var/lib/kafka')": "name a Kafka log directory, such as "
    "/var/lib/kafka",
    "Load the directories": "Scan the directories",
    "Load the directory again": "Scan the directory again",
}


@contextmanager
def python_words(words: Mapping[str, str] = _WORDS) -> Iterator[None]:
    """Makes errors that are raised in the block name arguments (`words`) instead of Spark's options."""
    try:
        yield
    except StratalogError as error:
        error.args = tuple(in_python(each, words) if isinstance(each, str) else each for each in error.args)
        if isinstance(error, CorruptRecordError):
            error.reason = in_python(error.reason, words)
        raise


def in_python(text: str, words: Mapping[str, str] = _WORDS) -> str:
    """A message about options of the source, changed to one about arguments."""
    for option, argument in words.items():
        text = text.replace(option, argument)
    return text
