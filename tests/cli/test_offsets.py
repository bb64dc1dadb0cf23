"""`stratalog offsets`: its options; tests/questions/test_offsets.py has the answers."""

from __future__ import annotations

import json

import pytest

from stratalog.cli import main
from tests.fixtures.catalog import log_dirs

(CLEAN,) = map(str, log_dirs("4.3.1", "clean"))


@pytest.mark.parametrize(
    ("time", "meaning"),
    [
        ("latest", -1),
        ("-1", -1),
        ("earliest", -2),
        ("-2", -2),
        ("max-timestamp", -3),
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
    ],
)
def test_a_time_has_a_name_a_number_or_a_date(
    time: str, meaning: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["offsets", CLEAN, "rolled", "--time", time, "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert document["time"] == meaning
    assert [each["topic"] for each in document["offsets"]] == ["rolled"]


def test_latest_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["offsets", CLEAN, "--topic", "rolled-0", "--plain"]) == 0

    assert capsys.readouterr().out.splitlines()[2].split("\t")[:3] == ["rolled", "0", "80"]


def test_another_word_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["offsets", CLEAN, "--time", "noon"]) == 2
    assert "Or earliest, latest, max-timestamp." in capsys.readouterr().err
