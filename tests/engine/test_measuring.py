"""What is counted of the reads from a device."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stratalog.engine.measuring import RateMeter, ReadingDisk
from stratalog.files.reading import DiskReader


def test_a_rate_is_that_of_the_last_seconds() -> None:
    meter = RateMeter()
    for second in range(100):
        meter.note(float(second), second * 10 if second < 50 else 500 + (second - 50) * 1000)

    assert meter.rate == 1000.0


def test_a_counting_reader_hands_each_question_to_its_disk() -> None:
    """A call that it does not pass on would go to this machine, with a simulated disk's names."""
    made_of_others = {"exists", "read_file"}
    questions = {name for name in dir(DiskReader) if not name.startswith("_")}
    asked = {name for name in vars(ReadingDisk) if not name.startswith("_")}

    assert questions - {"namespace"} - made_of_others <= asked


@pytest.mark.parametrize("question", ["free_size", "block_size", "available_size"])
def test_a_counting_reader_gives_the_size_that_its_disk_says(
    monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    disk = DiskReader()
    monkeypatch.setattr(disk, question, len)

    assert getattr(ReadingDisk(disk), question)("/logs") == len("/logs")


@pytest.mark.parametrize("answer", [False, True])
@pytest.mark.parametrize("question", ["may_create_in", "is_read_only", "is_in_use"])
def test_a_counting_reader_answers_as_its_disk_does(
    monkeypatch: pytest.MonkeyPatch, question: str, answer: bool
) -> None:
    disk = DiskReader()
    monkeypatch.setattr(disk, question, lambda path: answer and path == "/logs")

    assert getattr(ReadingDisk(disk), question)("/logs") is answer


def test_a_pipe_that_has_the_name_of_a_small_file_was_an_error_of_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "leader-epoch-checkpoint")

    assert ReadingDisk(DiskReader()).read_file(tmp_path / "leader-epoch-checkpoint") == b""
