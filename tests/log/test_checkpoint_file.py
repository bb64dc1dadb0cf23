"""Checkpoints, against a broker's own files and Kafka 4.3.1's verdicts on the same texts."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import CheckpointNumberError, CorruptCheckpointError, DiskError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.disk import Path as DiskPath
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.checkpoint_file import (
    OffsetCheckpointFile,
    _parse_offset,
    parse_checkpoint,
    parse_offsets,
)
from tests.fixtures.catalog import HERE, log_dirs

disk = Disk()
KEPT = sorted(path for logs in log_dirs() for path in logs.glob("*-offset-checkpoint"))
T0, U3 = TopicPartition("t", 0), TopicPartition("u", 3)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: str(path.relative_to(HERE)))
def test_a_brokers_checkpoint_is_written_again_byte_for_byte(path: Path, tmp_path: Path) -> None:
    offsets = OffsetCheckpointFile(disk, path).read()
    OffsetCheckpointFile(disk, tmp_path / "copy").write(offsets)

    assert (tmp_path / "copy").read_bytes() == path.read_bytes()


def test_the_recovery_points_of_a_broker_are_the_ends_of_its_logs() -> None:
    (logs,) = log_dirs("4.3.1", "clean")
    offsets = OffsetCheckpointFile(disk, logs / "recovery-point-offset-checkpoint").read()

    assert len(offsets) == 12
    assert offsets[TopicPartition("rolled", 0)] == 80
    assert offsets[TopicPartition("trimmed", 0)] == 30


# What OffsetCheckpointFile.read returned.
@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("", {}),
        ("0", {}),
        ("0\n", {}),
        ("0\n0", {}),
        ("0\n0\n", {}),
        ("0\n1\nt 0 5", {T0: 5}),
        ("0\n1\nt 0 5\n", {T0: 5}),
        ("0\r\n1\r\nt 0 5\r\n", {T0: 5}),
        ("0\n1\nt\t0  5 \n", {T0: 5}),
        ("+0\n+1\nt +0 +5\n", {T0: 5}),
        ("0\n2\nt 0 5\nt 0 6\n", {T0: 6}),
        ("0\n1\nt 0 -1\n", {T0: -1}),
        ("0\n1\nt\x0b0\f5\n", {T0: 5}),
    ],
)
def test_a_checkpoint_is_read_as_by_kafka(
    text: str, offsets: dict[TopicPartition, int], tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(text.encode())

    assert OffsetCheckpointFile(disk, path).read() == offsets


# What it threw an IOException for (in the last case another exception).
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("0\n1\n t 0 5\n", 3),
        ("0\n2\nt 0 5\n", 2),
        ("0\n1\nt 0 5\nu 0 1\n", 2),
        ("0\n1\nt 0\n", 3),
        ("0\n1\nt 0 5 6\n", 3),
        ("1\n0\n", 1),
        ("x\n0\n", 1),
        ("0\nx\n", 2),
        (" 0\n0\n", 1),
        ("0\n0\n\n", 3),
        ("\n0\n", 1),
        ("0\n1\nt\u00a00 5\n", 3),
    ],
)
def test_a_damaged_checkpoint_is_refused_with_its_line(text: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(text.encode())

    with pytest.raises(CorruptCheckpointError) as caught:
        OffsetCheckpointFile(disk, path).read()

    assert (caught.value.path, caught.value.line) == (str(path), line)
    assert not isinstance(caught.value, CheckpointNumberError)


@pytest.mark.parametrize(
    "line", ["t x 5", "t 0 y", "t 0 9223372036854775808", "t 2147483648 1"]
)  # a NumberFormatException there
def test_a_number_that_is_none_is_told_apart(line: str, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_text(f"0\n1\n{line}\n")

    with pytest.raises(CheckpointNumberError, match="line 3"):
        OffsetCheckpointFile(disk, path).read()


def test_a_negative_number_of_entries_was_said_to_take_the_directory_offline(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_text("0\n-1\n")

    with pytest.raises(CheckpointNumberError, match="line 2"):
        OffsetCheckpointFile(disk, path).read()


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"0\n1\n\xff\xfe 0 5\n")

    with pytest.raises(CorruptCheckpointError, match="UTF-8"):
        OffsetCheckpointFile(disk, path).read()


def test_what_is_written_is_read_again_and_overwritten(tmp_path: Path) -> None:
    file = OffsetCheckpointFile(disk, tmp_path / "checkpoint")
    file.write({T0: 2**63 - 1, U3: 5})
    assert file.read() == {T0: 2**63 - 1, U3: 5}
    file.write({U3: 6})

    assert OffsetCheckpointFile(disk, tmp_path / "checkpoint").read() == {U3: 6}
    assert (tmp_path / "checkpoint").read_bytes() == b"0\n1\nu 3 6\n"


def test_no_offsets_at_all_are_written_as_none(tmp_path: Path) -> None:
    file = OffsetCheckpointFile(disk, tmp_path / "checkpoint")
    file.write({})

    assert (tmp_path / "checkpoint").read_bytes() == b"0\n0\n"
    assert file.read() == {}


@pytest.mark.parametrize("topic", ["my topic", "a\tb", "a\nb", "a\rb", "a\vb", "r\udcff"])
def test_a_name_with_a_blank_or_without_utf_8_made_the_file_unreadable(topic: str, tmp_path: Path) -> None:
    checkpoint = OffsetCheckpointFile(Disk(), tmp_path / "checkpoint")
    others = {TopicPartition("a:b", 0): 1, TopicPartition("\u00fc", 2): 3}

    checkpoint.write({TopicPartition(topic, 0): 7, **others})

    assert checkpoint.read() == others
    assert not checkpoint.update(lambda known: {**known, TopicPartition(topic, 0): 8})


def test_reading_a_checkpoint_that_is_not_there_creates_nothing(tmp_path: Path) -> None:
    assert OffsetCheckpointFile(disk, tmp_path / "checkpoint").read() == {}
    assert list(tmp_path.iterdir()) == []


def test_a_removed_directory_is_forgiven_only_when_asked(tmp_path: Path) -> None:
    file = OffsetCheckpointFile(disk, tmp_path / "gone" / "checkpoint")
    file.write_if_directory_exists({T0: 1})

    with pytest.raises(DiskError):
        file.write({T0: 1})


def test_a_refusal_in_a_directory_that_is_there_is_never_forgiven(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()

    with pytest.raises(DiskError):
        OffsetCheckpointFile(disk, tmp_path / "checkpoint").write_if_directory_exists({T0: 1})


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DiskError("checkpoint", "a test", errno.EIO)])
def test_an_update_whose_rename_was_not_synced_is_written_again(error: BaseException) -> None:
    """Otherwise the content looks right until a power cut brings the old one back."""
    simulated = SimulatedDisk.of({"/data/checkpoint": b"0\n1\nt 0 5\n"})
    file = OffsetCheckpointFile(simulated, "/data/checkpoint")

    def stop(action: str, path: DiskPath) -> None:
        if action == "sync" and path == "/data":
            simulated.before_step = None
            raise error

    simulated.before_step = stop
    with pytest.raises(type(error)):
        file.update(lambda _: {T0: 6})

    assert file.update(lambda _: {T0: 6})
    assert {image.contents()["/data/checkpoint"] for image in simulated.crash()} == {b"0\n1\nt 0 6\n"}
    assert not file.update(lambda _: {T0: 6})


PLAIN = ["t 0 17", "a.b-c_d 3 5", "t 0 18", "t 007 5"]
ODD = ["t  0 17", "t 0 17 ", " t 0 17", "t 0", "t 0 -1", "t 7 +5", "t 0 1\r", "\u00e9 1 2", "t\u00a01 2", ""]
LONG = ["t 9999999999 0", "t 0 9223372036854775807", "t 0 9223372036854775808"]
LINES = st.sampled_from([*PLAIN, *ODD, *LONG])


@given(st.lists(LINES), st.integers(-1, 1), st.sampled_from(["0", "1", " 0"]), st.booleans())
def test_the_quick_way_to_read_offsets_differs_from_the_other_in_nothing(
    lines: list[str], missing: int, version: str, ends: bool
) -> None:
    text = "\n".join([version, str(len(lines) + missing), *lines]) + "\n" * ends

    def outcome(read: Callable[[], object]) -> object:
        try:
            return read()
        except CorruptCheckpointError as error:
            return type(error), str(error)

    data = text.encode()
    assert outcome(lambda: parse_offsets(data, "x")) == outcome(
        lambda: dict(parse_checkpoint(data, _parse_offset, "x"))
    )


def test_a_signal_handler_in_the_middle_of_a_write_does_not_write_too() -> None:
    """Its newer offsets were overwritten by the older ones of the call that it interrupted."""
    disk = SimulatedDisk.of({"/d/points": b"0\n1\norders 0 1\n"})
    file = OffsetCheckpointFile(disk, "/d/points")
    newer = {TopicPartition("orders", 0): 3}

    def change(known: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        for write in (
            lambda: file.write(newer),
            lambda: file.write_latest(lambda: newer),
            lambda: file.update(lambda _: newer),
        ):
            with pytest.raises(UsageError, match="signal handler"):
                write()
        return {key: offset + 1 for key, offset in known.items()}

    assert file.update(change)
    assert file.read() == {TopicPartition("orders", 0): 2}
