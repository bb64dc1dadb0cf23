"""What is counted of the reads from a device."""

from __future__ import annotations

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
