"""Salvage over several segments, interrupted at any step: doubts about later segments remain."""

from __future__ import annotations

import pytest

from stratalog.config import LogConfig
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.log.recovery.facts import FindingKind
from stratalog.log.recovery.plan import RecoveryPlan
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.log.recovery.run import recover_partition
from stratalog.log.recovery.survey import SurveyOptions
from stratalog.records.control import ControlType
from tests.log.model import NOW, ORDERS, ManualClock, batch, marker, produced, read_all
from tests.log.recovery.directory import ONE, Directory

DIRECTORY = "/logs/orders-0"
_JUMPS = {"^": 2**31, "v": -(2**31)}


def name(base_offset: int) -> str:
    return f"{DIRECTORY}/{base_offset:020d}.log"


def recover(disk: SimulatedDisk) -> RecoveryPlan:
    return recover_partition(
        disk,
        DIRECTORY,
        topic_partition=ORDERS,
        config=LogConfig(),
        now_ms=NOW,
        quarantine=Quarantine(disk, "/logs"),
        options=SurveyOptions(salvage=True),
    )


def logs(disk: SimulatedDisk) -> dict[str, bytes]:
    return {path: data for path, data in disk.contents().items() if path.endswith(".log")}


def segments(text: str) -> dict[int, list[tuple[str, bytes]]]:
    """Segments between bars, words as in `in_transactions` of damaged.py; a word's offset is its place.

    After `^`, the offsets are too far from those before; `v` ends that.
    """
    found: dict[int, list[tuple[str, bytes]]] = {}
    offset = 0
    for part in text.split("|"):
        words = found.setdefault(offset, [])
        for word in part.split():
            if word in _JUMPS:
                offset += _JUMPS[word]
                continue
            words.append((word, bytes_of(word, offset)))
            offset += 1
    return found


def bytes_of(word: str, offset: int) -> bytes:
    if word in (".", "#"):
        data = batch(b"plain", base_offset=offset)
        return data if word == "." else data[:-1] + bytes([data[-1] ^ 1])
    if len(word) == 1:
        sequence = offset % 2**31
        return produced(int(word), sequence, b"of a producer", transactional=True, base_offset=offset)
    kind = ControlType.COMMIT if word[1] == "c" else ControlType.ABORT
    return marker(int(word[0]), kind, base_offset=offset)


@pytest.mark.parametrize(
    ("before", "lost"),
    [
        (". . # .", [(2, 2)]),
        (". # . # .", [(1, 1), (3, 3)]),
        ("# # . | .", [(0, 1)]),
        (". # | .", [(1, 1)]),
        (". # # |.", [(1, 2)]),
        (". . #", [(2, None)]),
        ("1 . # . | 1c .", [(0, 0), (2, 2)]),
    ],
)
def test_salvage_reported_the_segments_base_as_the_first_offset_lost(
    before: str, lost: list[tuple[int, int | None]]
) -> None:
    plan = recover(new_disk(before))

    assert [(cut.first_offset, cut.last_offset) for cut in plan.cuts] == lost


@pytest.mark.parametrize(
    ("before", "offset"),
    [
        ("1 . | # . | 1 1c .", 0),
        (". 1 | # . | 2 2c .", 1),
        # Ended after the gap, begun after it, or left out with it: nobody waits.
        ("1 . | # . | 1 1a .", None),
        (". | # . | 1 .", None),
        ("1 # . | 1c .", None),
        # The log ends at the damage: a transaction that is open there may continue.
        (". 1 | 1 #", None),
    ],
)
def test_readers_of_committed_records_that_see_nothing_after_a_gap_are_told(
    before: str, offset: int | None
) -> None:
    plan = recover(new_disk(before))

    told = [finding for finding in plan.findings if finding.kind is FindingKind.STUCK_READERS]
    assert len(told) == (offset is not None)
    for finding in told:
        assert f"The last stable offset stays at {offset}" in finding.consequence
        assert f"--topic orders --partition 0 --start-offset {offset}`" in finding.consequence


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # A segment with only doubtful batches: if it were kept, the commit after it would commit them.
        ("1 # . | 1 1 | 1c .", ". | | 1c ."),
        ("1 # . | 1 1a | . 1 1c", ". | 1a | . 1 1c"),
        ("1 # . | 1 | 1 | 2 1c 1 1c", ". | | | 2 1c 1 1c"),
        # In doubt, and ended before the damage of a later segment.
        ("1 # . | 1 1c . # .", ". | 1c . ."),
        ("1 # . | 1 . # . | 1c 1 1c", ". | . . | 1c 1 1c"),
        # Nothing after the damage in its segment stays, but the next segment does: that is a gap.
        (". 1 # | 1 1c .", ". | 1c ."),
        ("# . 1 # | 1 1c .", ". | 1c ."),
        ("1 # | 1 # | 1c .", "| | 1c ."),
        # After the last gap, only transactions that were open there are in doubt.
        ("1 2 # . | 2 2c 1 | 2 2c 1a", ". | 2c | 2 2c 1a"),
        # The part in a segment that is not damaged stays; no commit may reach it, until an abort ends it.
        ("1 . | # . | 1 1c 1 1c | 1 1a 1 1c", "1 . | . | | 1a 1 1c"),
        # The log ends at the damage: it is cut there, and nothing else goes.
        (". 1 | 1 #", ". 1 | 1"),
        ("1 # . | 1 #", ". |"),
    ],
)
def test_no_commit_reaches_what_was_open_at_a_gap(before: str, after: str) -> None:
    planted = segments(before)
    disk = new_disk(before)

    plan = recover(disk)

    kept = [part.split() for part in after.split("|")]
    found = logs(disk)
    assert [*found] == [name(base) for base in planted]
    for (base, words), wanted in zip(planted.items(), kept, strict=True):
        assert words_in(words, found[name(base)]) == wanted
    assert recover(disk).steps == ()
    assert plan.log_end_offset == sum(len(words) for words in planted.values()) or "#" in before[-2:]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (". . ^ . # .", [". .", ". ."]),
        (". . ^ . # . | .", [". .", ". .", "."]),
        (". ^ . # . # . | .", [".", ". . .", "."]),
        # The offsets are damaged, so it is not split.
        (". . ^ . . # v . | .", [". . .", "."]),
    ],
)
def test_salvage_did_not_look_behind_damage_in_a_segment_whose_offsets_are_too_far_apart(
    before: str, after: list[str]
) -> None:
    disk = new_disk(before)

    plan = recover(disk)

    assert contents(disk, before) == after
    assert FindingKind.GAP in [finding.kind for finding in plan.findings]
    assert all(cut.kept_as for cut in plan.cuts)
    assert recover(disk).steps == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("1 # . | 1 ^ 1a . | 1 1c .", [".", "", "1a .", "1 1c ."]),
        ("1 # . | 1 . ^ 1a . | 1 1c .", [".", ".", "1a .", "1 1c ."]),
    ],
)
def test_an_abort_in_a_split_segment_did_not_end_a_transaction_in_doubt(
    before: str, after: list[str]
) -> None:
    disk = new_disk(before)

    recover(disk)

    assert contents(disk, before) == after
    assert recover(disk).steps == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("1 # . | 1 ^ 1c . | 1 1c .", [".", "", "1c .", "1 1c ."]),
        ("1 . | # . | 1 ^ 1c . | 1 1a 1 1c", ["1 .", ".", "", ".", "1a 1 1c"]),
        ("1 . | # . | . ^ 1 | 1c", ["1 .", ".", ".", ""]),
        # Open in the second part of a split segment, at a gap there or in the next segment.
        (". 1 ^ . 1 # . | 1c .", [".", ". .", "1c ."]),
        (". ^ 1 . | # . | 1c .", [".", "1 .", ".", "."]),
    ],
)
def test_a_commit_reached_what_a_split_segment_has_of_a_transaction_in_doubt(
    before: str, after: list[str]
) -> None:
    disk = new_disk(before)

    recover(disk)

    assert contents(disk, before) == after
    assert recover(disk).steps == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # It was open where a batch is lost, so nothing of it stays, and its commit ends nothing.
        ("1 # . | 1 . | 1c", ". | . | 1c"),
        ("1 # . | 1 1 | 1c", ". | | 1c"),
        ("1 # . | 1 . ^ 1c . # . | 1 1c", ". | . | 1c . . | 1 1c"),
    ],
)
def test_a_power_cut_at_any_step_leaves_no_half_of_a_transaction_in_doubt(before: str, after: str) -> None:
    counting = new_disk(before)
    recover(counting)
    expected = logs(counting)
    assert contents(counting, before) == [part.strip() for part in after.split("|")]
    for step in range(1, counting.steps + 1):
        disk = new_disk(before)
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            recover(disk)
        for left in disk.crash(4):
            recover(left)
            assert logs(left) == expected, step


def new_disk(text: str) -> SimulatedDisk:
    planted = segments(text)
    return SimulatedDisk.of(
        {name(base): b"".join(data for _, data in words) for base, words in planted.items()}, ManualClock()
    )


def contents(disk: SimulatedDisk, before: str) -> list[str]:
    """Which batches each log has, as words."""
    words = [word for part in segments(before).values() for word in part]
    found = []
    for data in logs(disk).values():
        found.append(" ".join(words_in(words, data)))
    return found


def words_in(words: list[tuple[str, bytes]], data: bytes) -> list[str]:
    """Which batches of a segment are in its file, in order."""
    found = []
    for word, batch_data in words:
        if data.startswith(batch_data):
            found.append(word)
            data = data.removeprefix(batch_data)
    assert data == b""
    return found


def test_salvage_keeps_what_is_readable_behind_damage(orders: Directory) -> None:
    whole = orders.file(5, ".log").read_bytes()
    orders.flip(5, 2 * ONE - 1)
    damaged = orders.file(5, ".log").read_bytes()

    plan = orders.recover(recovery_point=5, salvage=True)

    assert orders.offsets(".log") == [0, 5, 10]
    assert orders.file(5, ".log").read_bytes() == whole[:ONE] + whole[2 * ONE :]
    assert plan.log_end_offset == 13
    (cut,) = plan.cuts
    assert cut.kept_as is not None
    assert (orders.root / cut.kept_as).read_bytes() == damaged[ONE : 2 * ONE]
    assert FindingKind.GAP in [finding.kind for finding in plan.findings]
    assert orders.recover(recovery_point=5).steps == ()
    assert [record.offset for record in read_all(orders.open())] == [*range(6), *range(7, 13)]
