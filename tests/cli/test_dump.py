"""`stratalog dump` prints what Kafka 4.3.1's tool printed of the fixtures, and more than it can."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.dumping import (
    complaint_blocks,
    dump,
    expected_complaints,
    expected_lines,
    relative,
    tree_hash,
)
from tests.fixtures.catalog import Partition, log_dirs, partitions
from tests.kafka.tools import dumpable_files
from tests.waiting import PATIENCE_S

DECODERS = {
    "__consumer_offsets-0": "--offsets-decoder",
    "__transaction_state-0": "--transaction-log-decoder",
    "__share_group_state-0": "--share-group-state-decoder",
    "__cluster_metadata-0": "--cluster-metadata-decoder",
}
CLEAN = log_dirs("4.3.1", "clean")[0]
ROLLED = CLEAN / "rolled-0"
FIRST = "00000000000000000000"

Capture = pytest.CaptureFixture[bytes]


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A copy of a segment of five batches that can be damaged; the path of its .log."""
    for file in ROLLED.glob(f"{FIRST}.*"):
        shutil.copy(file, tmp_path)
    return tmp_path / f"{FIRST}.log"


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


@pytest.mark.parametrize("partition", [p for p in partitions() if p.decoded_dump], ids=str)
def test_internal_topics_are_decoded_as_by_kafka(
    partition: Partition, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = partition.path.parent
    monkeypatch.chdir(logs)
    files = partition.logs + partition.checkpoints
    assert partition.decoded_dump is not None

    dumped = dump(capsysbinary, DECODERS[partition.name], "--files", relative(files, logs))

    assert dumped.out == partition.decoded_dump.read_bytes().decode()


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_batches_without_records_are_the_same_lines(partition: Partition, capsysbinary: Capture) -> None:
    kafka = partition.dump.read_bytes().decode()

    for file in partition.logs:
        dumped = dump(capsysbinary, "--files", file)

        assert dumped.status == 0
        assert dumped.err == ""
        for line in dumped.lines[2:]:
            assert line.startswith(("baseOffset: ", "offset: "))
            assert f"{line}\n" in kafka


def test_a_dump_changes_nothing(tmp_path: Path, capsysbinary: Capture) -> None:
    copy = shutil.copytree(log_dirs("4.3.1", "killed")[0], tmp_path / "logs")
    index = copy / "rolled-0" / f"{FIRST}.index"
    index.write_bytes(index.read_bytes() + b"abc")  # Kafka's tool cuts this off
    (copy / "rolled-0" / "00000000000000000020.index").unlink()  # and makes one of these
    before = tree_hash(copy)

    dump(capsysbinary, copy, "--print-data-log")
    dump(capsysbinary, copy, "--index-sanity-check")

    assert tree_hash(copy) == before


def test_part_of_an_entry_is_told_of(segment: Path, capsysbinary: Capture) -> None:
    index = segment.with_suffix(".index")
    index.write_bytes(index.read_bytes() + b"abc")

    dumped = dump(capsysbinary, "--files", index)

    assert dumped.lines == [f"Dumping {index}", "offset: 11 position: 514", "offset: 19 position: 1058"]
    assert dumped.err == f"{index} ends with 3 bytes that are no entry.\n"
    assert dumped.status == 0


def test_zeros_behind_the_last_batch_end_the_file_and_not_the_dump(
    segment: Path, capsysbinary: Capture
) -> None:
    whole = dump(capsysbinary, "--files", segment)
    os.truncate(segment, 1335 + 4096)

    dumped = dump(capsysbinary, "--files", f"{segment},{segment.with_suffix('.index')}")

    assert dumped.lines[: len(whole.lines)] == whole.lines
    assert dumped.lines[len(whole.lines) :] == [
        f"Found 4096 invalid bytes at the end of {FIRST}.log",
        f"Dumping {segment.with_suffix('.index')}",
        "offset: 11 position: 514",
        "offset: 19 position: 1058",
    ]
    assert (
        dumped.err
        == f"{segment} at byte 1335: zeros where a batch should start, 4096 bytes before the end.\n"
    )
    assert dumped.status == 1


def test_a_torn_batch_is_counted_and_no_failure(segment: Path, capsysbinary: Capture) -> None:
    os.truncate(segment, 1000)

    dumped = dump(capsysbinary, "--files", segment)

    assert dumped.lines[-1] == f"Found 219 invalid bytes at the end of {FIRST}.log"
    assert (dumped.status, dumped.err) == (0, "")


def test_max_bytes_reads_the_whole_batches_within(segment: Path, capsysbinary: Capture) -> None:
    dumped = dump(capsysbinary, "--max-bytes", "1000", "--files", segment)

    assert [line.split()[1] for line in dumped.lines[2:]] == ["0", "4", "8"]
    assert (dumped.status, dumped.err) == (0, "")


def test_a_dump_can_begin_at_a_byte(segment: Path, capsysbinary: Capture) -> None:
    whole = dump(capsysbinary, "--files", segment, "--deep-iteration")

    dumped = dump(capsysbinary, "--position", "514", segment, "--deep-iteration")

    assert dumped.lines[2:] == whole.lines[2 + 2 * 5 :]
    assert dumped.err == ""


def test_a_batch_that_cannot_be_read_does_not_hide_the_next(segment: Path, capsysbinary: Capture) -> None:
    data = bytearray(segment.read_bytes())
    data[257 + 61] = 0x7F  # the size of the second batch's first record
    segment.write_bytes(data)

    dumped = dump(capsysbinary, "--print-data-log", "--files", segment)

    batches = [line for line in dumped.lines if line.startswith("baseOffset")]
    assert [line.endswith("isvalid: true") for line in batches] == [True, False, True, True, True]
    assert sum(line.startswith("| offset") for line in dumped.lines) == 4 * 4
    assert f"{segment} at byte 257: " in dumped.err
    assert dumped.status == 1


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["--deep-iteration", "--skip-record-metadata"], ["", "", "", ""]),
        (
            ["--print-data-log", "--skip-record-metadata"],
            [f"| key: k{i} payload: {4 * f'epoch 0 {i} '}" for i in range(4)],
        ),
    ],
)
def test_records_without_metadata(
    arguments: list[str], lines: list[str], segment: Path, capsysbinary: Capture
) -> None:
    dumped = dump(capsysbinary, *arguments, "--files", segment)

    assert dumped.lines[3:7] == lines


def test_unknown_files_are_ignored_as_by_kafka(
    capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CLEAN)

    dumped = dump(capsysbinary, "--files", "meta.properties,replication-offset-checkpoint")

    assert dumped.out == "Dumping meta.properties\nDumping replication-offset-checkpoint\n"
    assert dumped.err == (
        "Ignoring unknown file meta.properties\nIgnoring unknown file replication-offset-checkpoint\n"
    )
    assert dumped.status == 0


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


def test_text_files_are_dumped_by_name(capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CLEAN)

    dumped = dump(
        capsysbinary,
        "log-start-offset-checkpoint",
        "txn-0/leader-epoch-checkpoint",
        "txn-0/partition.metadata",
        ".kafka_cleanshutdown",
    )

    offsets = (CLEAN / "log-start-offset-checkpoint").read_text().splitlines()[2:]
    epochs = (CLEAN / "txn-0/leader-epoch-checkpoint").read_text().splitlines()[2:]
    broker_epoch = json.loads((CLEAN / ".kafka_cleanshutdown").read_text())["brokerEpoch"]
    assert dumped.lines == [
        "Dumping log-start-offset-checkpoint",
        *("topic: {} partition: {} offset: {}".format(*line.split()) for line in offsets),
        "Dumping txn-0/leader-epoch-checkpoint",
        *("epoch: {} startOffset: {}".format(*line.split()) for line in epochs),
        "Dumping txn-0/partition.metadata",
        *(CLEAN / "txn-0/partition.metadata").read_text().splitlines(),
        "Dumping .kafka_cleanshutdown",
        f"closed cleanly brokerEpoch: {broker_epoch}",
    ]


def test_a_directory_stands_for_all_its_files(capsysbinary: Capture) -> None:
    dumped = dump(capsysbinary, CLEAN)

    headlines = [line.removeprefix("Dumping ") for line in dumped.lines if line.startswith("Dumping ")]
    unknown = {"quorum-state"}
    assert sorted(headlines) == sorted(
        str(file) for file in CLEAN.rglob("*") if file.is_file() and file.name not in unknown
    )
    assert dumped.status == 0


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


def test_among_files_a_name_that_is_unknown_is_passed_over_as_by_kafka(capsysbinary: Capture) -> None:
    dumped = dump(capsysbinary, "--files", "nowhere")

    assert (dumped.status, dumped.err) == (0, "Ignoring unknown file nowhere\n")
