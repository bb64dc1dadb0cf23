"""`stratalog ls`: topics, the partitions of a topic, the segments of a partition."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.operations.ls_report import DROPPABLE
from tests.fixtures.catalog import log_dirs
from tests.waiting import PATIENCE_S

(LOGS,) = log_dirs("4.3.1", "clean")


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[list[str]]:
    """The rows of the last table."""
    assert main.run(["ls", *map(str, arguments), "--plain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = max(number for number, line in enumerate(lines) if line.startswith("# "))
    return [line.split("\t") for line in lines[start + 2 : -1]]


def test_topics_with_the_facts_of_their_files(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row[0]: row[1:] for row in shown(capsys, LOGS)}

    assert rows["trimmed"][:5] == ["1", "1", "1.3 kB", "17", "30"]
    assert rows["compacted"][-2:] == ["compact", "4"]


def test_a_name_after_the_directory_is_a_topic_or_a_partition(capsys: pytest.CaptureFixture[str]) -> None:
    assert [row[0] for row in shown(capsys, LOGS, "rolled")] == ["rolled-0"]
    assert [row[0] for row in shown(capsys, LOGS, "rolled-0")] == ["0", "20", "40", "56", "72"]
    assert shown(capsys, LOGS, "--topic", "rolled-0") == shown(capsys, LOGS, "rolled-0")


def test_the_path_of_a_partition_means_its_segments(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, LOGS / "rolled-0") == shown(capsys, LOGS, "rolled-0")


def test_inside_the_log_directory_names_are_paths_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = shown(capsys, LOGS, "rolled-0")
    monkeypatch.chdir(LOGS)

    assert shown(capsys, "rolled-0") == expected
    assert shown(capsys, ".", "rolled-0") == expected


def test_the_directories_are_those_of_a_server_properties(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={LOGS}\nlog.cleanup.policy=delete\n")

    rows = {row[0]: row for row in shown(capsys, "--config", properties)}

    assert rows["rolled"][-2] == "delete"
    assert [row[0] for row in shown(capsys, "rolled", "--config", properties)] == ["rolled-0"]


def test_a_document_has_every_partition(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["ls", str(LOGS), "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    names = [found["name"] for topic in document["topics"] for found in topic["partitions"]]
    assert sorted(names) == sorted(
        path.name for path in LOGS.iterdir() if path.is_dir() and "-delete" not in path.name
    )
    assert document["verdict"] == "13 topics, 13 partitions, 22 segments, 47.8 kB."


def test_only_a_name_is_not_enough(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["ls", "orders"]) == 2
    assert "name the log directories" in capsys.readouterr().err


def test_a_name_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["ls", str(LOGS), "nothing"]) == 2
    assert "nothing: there is no such topic or partition" in capsys.readouterr().err


def on_terminal(columns: int) -> str:
    """What `ls` prints on a terminal of this width."""
    master, slave = pty.openpty()
    with os.fdopen(master, "rb", 0) as screen:
        command = [sys.executable, "-m", "stratalog.cli.main", "ls", str(LOGS)]
        environment = {**os.environ, "COLUMNS": str(columns), "TERM": "dumb"}
        process = subprocess.Popen(command, stdout=slave, stderr=subprocess.DEVNULL, env=environment)
        os.close(slave)
        printed = b""
        try:
            while part := screen.read(65536):
                printed += part
        except OSError:  # the other side was closed
            pass
        assert process.wait(PATIENCE_S) == 0
    return printed.decode().replace("\r\n", "\n")


def test_a_terminal_of_eighty_columns_had_a_line_for_each_cell() -> None:
    lines = on_terminal(80).splitlines()

    assert max(map(len, lines)) <= 80
    title = next(line for line in lines if line.startswith("Topics"))
    assert title.strip() == "Topics, without epoch, first time, codec, segments, first offset, policy"
    (row,) = [line for line in lines if line.startswith("│ trimmed ")]
    assert [cell.strip() for cell in row.split("│")[1:-1]] == [
        "trimmed",
        "1",
        "1.3 kB",
        "30",
        "2023-11-14 22:13:20",
    ]


def test_the_help_says_which_columns_are_left_out_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["ls", "--help"]) == 0

    words = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert f"in this order: {', '.join(DROPPABLE)}." in words
