"""Errors of a scan name its arguments, not Spark's options."""

from __future__ import annotations

import pytest

from stratalog.errors import CorruptRecordError, UsageError
from stratalog.jobs.reading.options import ReadOptions
from stratalog.scanning.words import in_python, python_words


def test_an_option_becomes_an_argument() -> None:
    assert in_python("set onCorruption=skip.") == 'set on_corruption="skip".'
    assert in_python("failOnDataLoss=false") == "fail_on_data_loss=False"


def test_an_error_keeps_its_type_and_place() -> None:
    with pytest.raises(CorruptRecordError, match='on_corruption="skip"') as caught, python_words():
        raise CorruptRecordError("torn: set onCorruption=skip.", position=7, path="/a/b.log")

    assert (caught.value.position, caught.value.path) == (7, "/a/b.log")
    assert caught.value.reason == 'torn: set on_corruption="skip".'


def test_what_the_options_say_about_a_value_names_the_argument() -> None:
    with (
        pytest.raises(UsageError, match=r"^on_corruption is 'ignore': use one of fail, skip"),
        python_words(),
    ):
        ReadOptions.parse({"path": "/a", "onCorruption": "ignore"})
