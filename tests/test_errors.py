"""Every error of ours travels between processes as it is: Spark's workers send theirs to the driver."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator

import pytest

from stratalog import errors
from stratalog.errors import StratalogError

ORDINARY = inspect.Parameter.POSITIONAL_OR_KEYWORD


def every_error() -> Iterator[StratalogError]:
    """One of each kind, made of arguments that tell them apart."""
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
