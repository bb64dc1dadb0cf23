"""Where a broker takes a log to end. tests/kafka/test_log_ends.py asks a broker about the same changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog import open_log
from stratalog.files.disk import Disk
from stratalog.log.broker_end import BrokerEnd, broker_end
from tests.directory.endings import BASE, END, HARMLESS, INDEX, LOSING, REFUSED_END
from tests.directory.recovery.recovering import copy_of
from tests.directory.refused import ACTIVE, Make, cut, remove, write


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    return copy_of("clean", tmp_path / "clean")


def found(directory: Path, start: int = 0) -> BrokerEnd:
    end = broker_end(Disk(), str(directory / "rolled-0"), start)
    assert end is not None
    return end


@pytest.mark.parametrize("name", [name for name in LOSING if name != "a start past the end"])
def test_an_index_that_leads_to_no_batch_gives_a_broker_the_base_offset(clean: Path, name: str) -> None:
    LOSING[name].make(clean)

    end = found(clean)

    assert (end.offset, end.real_offset) == (BASE, 76 if "cut" in name else END)
    assert end.damage is None


@pytest.mark.parametrize("make", HARMLESS.values(), ids=HARMLESS)
def test_any_other_index_gives_it_the_end(clean: Path, make: Make) -> None:
    make(clean)

    end = found(clean)

    assert end.offset == end.real_offset
    assert end.offset in (END, None)


def test_an_index_that_leads_to_a_length_of_zero_stops_a_broker(clean: Path) -> None:
    REFUSED_END.make(clean)

    end = found(clean)

    assert end.damage is not None
    assert (end.damage.position, end.is_index_wrong, end.real_offset) == (337, True, END)


def test_without_an_index_the_end_is_only_looked_for_if_the_start_may_be_past_it(clean: Path) -> None:
    remove(INDEX)(clean)

    assert found(clean, BASE).real_offset is None
    assert found(clean, BASE + 1).real_offset == END


def test_an_empty_newest_segment_ends_at_its_base(clean: Path) -> None:
    cut(ACTIVE, 0)(clean)
    write(INDEX, b"z" * 16)(clean)

    assert (found(clean).offset, found(clean).real_offset) == (BASE, BASE)


def test_a_partition_without_a_log_has_no_end(tmp_path: Path) -> None:
    assert broker_end(Disk(), str(tmp_path)) is None


class Counted(Disk):
    """Counts the bytes that are read."""

    count = 0

    def read_into(self, path, buffer, position, identity=None):  # type: ignore[no-untyped-def]
        self.count += len(buffer)
        return super().read_into(path, buffer, position, identity)


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    with open_log(tmp_path / "t-0", create=True) as log:
        for _ in range(400):
            log.append(b"x" * 5000)
    disk = Counted()

    end = broker_end(disk, str(tmp_path / "t-0"))

    assert end is not None
    assert (end.offset, end.real_offset) == (400, 400)
    assert disk.count < 64 << 10


def test_entries_that_do_not_ascend_are_searched_as_kafka_does(tmp_path: Path) -> None:
    """Kafka looks at its last 1025 entries first; here they are all below the one that is looked for."""
    with open_log(tmp_path / "t-0", create=True) as log:
        for _ in range(40):
            log.append(b"x" * 5000)
    index = tmp_path / "t-0" / "00000000000000000000.index"
    entries = [index.read_bytes()[at : at + 8] for at in range(0, index.stat().st_size, 8)]
    index.write_bytes(b"".join(entries + [entries[0]] * 3000))

    end = broker_end(Disk(), str(tmp_path / "t-0"))

    assert end is not None
    assert (end.offset, end.real_offset) == (40, 40)
