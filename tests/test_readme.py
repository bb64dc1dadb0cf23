"""The recipes of the README print what it says they print."""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.cli.demo_damage import append_zeros, cut_the_power, tear_the_tail
from stratalog.cli.demo_logs import build_logs
from stratalog.files.disk import Disk

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")
CONSOLE = re.compile(r"^```console\n\$ stratalog (.*)\n((?:.*\n)*?)```$", re.MULTILINE)
HERE = "/var/lib/kafka"  # in the README; tables are as wide as the paths in them
NUMBER = re.compile(r"\d[\d.]*")


@pytest.fixture(scope="module")
def crashed() -> Iterator[Path]:
    """The directory of the README: a broker whose power was cut while it wrote to two partitions."""
    directory = Path(tempfile.mkdtemp(dir="/tmp", prefix="k"))
    assert len(str(directory)) == len(HERE)
    logs = build_logs(directory, size=40_000_000, seed=1, disk=Disk())
    tear_the_tail(str([log for log in logs if log.parent.name == "invoices-0"][-1]))
    append_zeros(str([log for log in logs if log.parent.name == "orders-2"][-1]))
    cut_the_power(directory)
    yield directory
    shutil.rmtree(directory)


def comparable(line: str) -> str:
    """Without what differs from machine to machine: times, free space."""
    return NUMBER.sub("0", " ".join(line.replace("─", "").replace("━", "").split()))


def test_each_recipe_prints_what_the_readme_says(
    crashed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "135")
    recipes = CONSOLE.findall(README)

    for command, printed in recipes:
        capsys.readouterr()
        status = main.run(shlex.split(command.replace(HERE, str(crashed))))
        found = capsys.readouterr().out.replace(str(crashed), HERE)

        assert status in (0, 1), command
        lines = {comparable(line) for line in found.splitlines()}
        wanted = [line for line in printed.splitlines() if line != "..."]
        assert [line for line in wanted if comparable(line) not in lines] == [], (command, found)
    assert len(recipes) == 5
