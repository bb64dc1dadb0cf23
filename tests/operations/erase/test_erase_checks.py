"""Where records may be that erasing does not reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.erasing import COUNT, SETTINGS, run
from tests.cli.planting import Planted


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """Twenty-one records of three keys in five segments; the last has one record. Values are offsets."""
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", COUNT, keys=3)
    return planted


def test_records_that_a_write_has_staged_are_refused(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    source = planted.data / "t-0" / f"{5:020d}.log"
    (planted.data / "stratalog-write-5f0c-0-0.log").write_bytes(source.read_bytes())
    before = planted.contents()

    assert run(planted, "--key", "0") == 3

    assert "stratalog-write-5f0c-0-0.log was staged by a write" in capsys.readouterr().err
    assert planted.contents() == before
    assert run(planted, "--key", "nobody") == 0


def test_what_a_killed_write_has_staged_may_hold_them_in_its_torn_end(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (planted.data / "t-0" / f"{5:020d}.log").read_bytes()
    # The first of five batches is whole and of another key; the second has the key, and lacks its last byte.
    (planted.data / "stratalog-write-5f0c-0-0.log").write_bytes(source[: len(source) * 2 // 5 - 1])
    before = planted.contents()

    assert run(planted, "--key", "0") == 3

    assert "may have records to erase in its torn end" in capsys.readouterr().err
    assert planted.contents() == before


def test_a_file_that_is_nothing_of_a_broker_s_is_named_as_not_looked_into(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = planted.data / "t-0"
    (folder / f"{5:020d}.log.bak").write_bytes((folder / f"{5:020d}.log").read_bytes())

    assert run(planted, "--key", "0") == 0

    assert (
        f"These files were not searched, because a broker does not have such files: t-0/{5:020d}.log.bak."
        in capsys.readouterr().err
    )
