"""A partition that cannot be read is reported; the commands go on with the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stratalog.cli import main
from tests.cli.planting import SET_SIZE, Planted
from tests.log.model import NOW

LIMITED: dict[str, Any] = {"cleanup.policy": "compact,delete", "retention.bytes": 5 * SET_SIZE}


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """Two topics with something to delete and to clean; one has a file whose name stops a broker."""
    with Planted(tmp_path, bad=LIMITED, good=LIMITED) as planted:
        for topic in ("bad", "good"):
            planted.fill(topic, 21, keys=3)
    (planted.data / "bad-0" / "foo.log").touch()
    return planted


def run(planted: Planted, command: str, *arguments: str) -> int:
    given = [str(planted.data), "--topic-settings", str(planted.settings), "--now", str(NOW)]
    return main.run([command, *given, *arguments])


@pytest.mark.parametrize("command", ["du", "explain", "estimate", "retain", "compact"])
def test_the_partition_and_its_file_are_named_and_the_other_topic_is_answered(
    planted: Planted, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--dry-run"] if command in ("retain", "compact") else []

    code = run(planted, command, *arguments)

    told = capsys.readouterr()
    assert code == 3
    assert "bad-0" in told.out + told.err
    assert "foo.log" in told.out + told.err
    assert "good" in told.out


@pytest.mark.parametrize("command", ["retain", "compact"])
def test_the_other_topic_is_worked_on(planted: Planted, command: str) -> None:
    before = planted.contents()

    assert run(planted, command) == 3

    after = planted.contents()
    assert planted.files("good", ".deleted")
    assert {name: found for name, found in after.items() if name.startswith("bad-0")} == {
        name: found for name, found in before.items() if name.startswith("bad-0")
    }
    assert (planted.data / ".kafka_cleanshutdown").exists()
