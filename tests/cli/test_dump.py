"""`stratalog dump` prints what Kafka 4.3.1's tool printed of the fixtures, and more than it can."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.dumps import complaint_blocks, dump, expected_complaints, expected_lines, relative, tree_hash
from tests.fixtures.catalog import Partition, log_dirs, partitions
from tests.kafka.tools import dumpable_files
from tests.waiting import PATIENCE_S

FIRST = "00000000000000000000"
Capture = pytest.CaptureFixture[bytes]


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_all_files_are_dumped_as_by_kafka(
    partition: Partition, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = partition.path.parent
    monkeypatch.chdir(logs)
    kafka = partition.dump.read_bytes().decode()

    dumped = dump(capsysbinary, "--print-data-log", "--files", relative(dumpable_files(partition.path), logs))

    assert dumped.out == expected_lines(kafka, logs)
    complaints = dumped.err.replace(f"{logs}/", "")
    assert complaint_blocks(complaints) == expected_complaints(partition.complaints, Path(), kafka)
    assert dumped.status == 0


def test_a_dump_changes_nothing(tmp_path: Path, capsysbinary: Capture) -> None:
    copy = shutil.copytree(log_dirs("4.3.1", "killed")[0], tmp_path / "logs")
    index = copy / "rolled-0" / f"{FIRST}.index"
    index.write_bytes(index.read_bytes() + b"abc")  # Kafka's tool would cut this off
    (copy / "rolled-0" / "00000000000000000020.index").unlink()  # and create this one
    before = tree_hash(copy)

    dump(capsysbinary, copy, "--print-data-log")
    dump(capsysbinary, copy, "--index-sanity-check")

    assert tree_hash(copy) == before


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--no-such-option", "--files", "a.log"],
        ["--files", f"{FIRST}.log", "--value-decoder-class", "my.Decoder"],
        ["--files", "not-there/00000000000000000000.log"],
        ["--files", "name.log"],
    ],
)
def test_failures_have_the_status_of_kafkas_tool(arguments: list[str], capsysbinary: Capture) -> None:
    dumped = dump(capsysbinary, *arguments)

    assert dumped.status == 1
    assert dumped.err


def test_a_reader_that_has_gone_ends_the_dump_quietly() -> None:
    command = f"{sys.executable} -m stratalog.cli.main dump --print-data-log {log_dirs('4.3.1', 'killed')[0]}"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert "Traceback" not in done.stderr
    assert done.stdout.splitlines()[-1] in ("0", "141")


@pytest.mark.parametrize("name", ["nowhere", "nowhere-0", "00000000000000000000.log", "notes.txt"])
def test_a_path_that_is_not_there_is_no_success(name: str, tmp_path: Path, capsysbinary: Capture) -> None:
    dumped = dump(capsysbinary, tmp_path / name, log_dirs("4.3.1", "clean")[0] / "txn-0" / f"{FIRST}.log")

    assert dumped.status == 1
    assert f"{tmp_path / name}: there is no such file or directory." in dumped.err
    assert "Log starting offset: 0" in dumped.lines
