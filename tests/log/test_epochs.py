"""Leader epochs: Kafka's own scenarios, and whole histories that its cache was taken through."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import CorruptCheckpointError, DiskError, UsageError
from stratalog.files.disk import Disk
from stratalog.log.epochs import EpochEntry, LeaderEpochFileCache
from tests.fixtures.catalog import HERE

disk = Disk()
KEPT = sorted(HERE.rglob("leader-epoch-checkpoint"))
UNDEFINED = (-1, -1)

# Each line is a history, then the file that LeaderEpochFileCache of 4.3.1 left, then its answers about an
# epoch (where it ends if the log ends at 100, the epochs before and after it, and the one before the latest)
# and about an offset (its epoch).
HISTORIES = """
assign 3 2;assign 3 2;assign 6 0;assign 8 6;assign 9 10;end 6;assign 12 3;assign 11 0;assign 14 3;|\
0,2,11 0,14 3,|0 0 0 None 11 11|35 14
assign 0 2;start 1;end -3;assign 0 4;start -7;assign 0 6;assign 2 0;end 1;start -13;end -1;assign 4 1;\
end -2;|0,2,2 0,4 1,|1 1 0 None 2 2|8 4
assign 1 5;end 4;assign 4 8;start 0;start -3;assign 7 10;assign 9 17;assign 9 21;assign 7 14;end 5;\
assign 10 16;|0,1,10 16,|9 9 16 None 10 None|25 10
assign 3 0;assign 3 2;assign 4 4;assign 6 6;start -6;assign 9 6;assign 6 13;assign 7 4;start -17;\
assign 9 0;assign 9 2;|0,1,9 0,|10 -1 -1 9 None None|9 9
end 0;assign 1 0;start -7;end 0;assign 0 1;assign 0 1;assign 0 0;assign 2 4;assign 4 0;assign 1 0;end -8;\
end -7;assign 2 6;|0,2,1 0,2 6,|-1 -1 -1 None 1 1|9 2
assign 1 6;start 2;assign 0 6;assign 1 9;assign 3 16;assign 4 19;assign 4 26;end 24;assign 7 29;\
assign 9 34;|0,6,0 6,1 9,3 16,4 19,7 29,9 34,|0 0 9 None 1 7|4 None
assign 0 1;end -2;assign 2 2;start 0;assign 5 0;assign 8 3;assign 10 3;assign 11 3;assign 14 0;\
assign 13 2;start -13;assign 15 9;end 9;|0,1,13 2,|8 8 2 None 13 None|39 13
assign 0 3;assign 0 0;start -6;end 3;end -5;end -2;assign 2 1;assign 4 8;start 10;end 4;start 2;\
assign 7 8;start -1;start -1;assign 8 12;|0,2,7 8,8 12,|7 7 12 None 8 7|30 8
start -22;assign 3 1;assign 3 8;start -7;start -12;assign 4 15;end 17;start -8;assign 5 15;assign 7 3;\
start -19;assign 4 9;assign 1 9;end 2;|0,0,|3 -1 -1 None None None|22 None
start -13;assign 3 0;assign 4 4;end 3;assign 6 0;start -5;start -2;assign 8 0;end -7;assign 8 0;\
assign 7 6;end 1;assign 9 7;end 10;assign 11 9;|0,2,9 7,11 9,|4 4 7 None 9 9|1 None
end -5;assign 1 6;assign 4 6;assign 5 8;assign 7 0;start -15;assign 8 5;assign 9 8;assign 9 8;\
assign 10 10;assign 11 17;end 8;assign 7 23;assign 8 27;|0,2,7 23,8 27,|1 1 23 None 7 7|24 7
assign 0 0;end -1;assign 2 4;end -3;assign 4 0;assign 4 2;assign 5 8;assign 8 2;assign 10 0;assign 9 4;\
assign 9 0;assign 11 0;assign 12 0;end 1;assign 15 3;|0,2,12 0,15 3,|7 7 0 None 12 12|2 12
assign 0 0;end -11;end -7;start -12;assign 2 0;assign 1 0;assign 3 2;start -8;assign 0 9;assign 1 10;\
end 12;assign 0 4;assign 1 7;assign 4 11;assign 7 14;|0,4,0 4,1 7,4 11,7 14,|9 -1 -1 7 None 4|16 7
end -5;start 0;start -21;assign 0 0;assign 2 2;end -1;end -3;end -11;end -8;start -8;start -9;assign 5 4;\
end 2;end 1;assign 6 10;assign 3 2;assign 3 2;start -17;assign 6 9;|0,3,0 0,3 2,6 9,|4 3 9 3 6 3|6 3
assign 0 4;end -9;end -2;assign 1 0;assign 3 7;assign 6 8;assign 6 9;start 5;assign 6 1;start -1;\
assign 2 6;end 3;assign 3 8;assign 3 0;end -7;assign 6 0;assign 8 0;assign 8 4;|0,1,8 0,|\
9 -1 -1 8 None None|24 8
assign 0 4;end 5;start -10;assign 0 10;assign 0 15;start -1;assign 2 3;assign 2 0;start -2;start -21;\
start -18;end 2;assign 3 0;assign 5 5;assign 1 7;start 6;end -3;assign 2 11;|0,2,1 7,2 11,|\
6 -1 -1 2 None 1|31 2
assign 2 5;end -1;assign 2 6;end 3;end 4;assign 3 0;assign 5 4;assign 4 0;assign 2 1;assign 2 1;end -7;\
assign 5 0;start -23;end 2;assign 8 0;assign 11 5;assign 7 12;assign 8 13;end -1;|0,2,7 12,8 13,|\
8 8 100 7 None 7|19 8
start -5;start -15;assign 2 0;assign 3 6;start -11;start -10;assign 3 10;assign 1 17;assign 2 23;\
assign 5 23;assign 8 30;assign 11 31;start 16;end 30;end 17;assign 11 37;start 20;start 24;|0,1,11 37,|\
7 7 37 None 11 None|26 None
end -13;end -11;end -2;assign 0 0;assign 2 4;assign 3 8;assign 5 14;assign 5 21;assign 2 9;start -5;\
assign 1 3;assign 2 5;assign 4 5;assign 4 12;assign 6 12;assign 8 19;assign 4 19;assign 5 7;|\
0,3,0 0,1 3,5 7,|7 -1 -1 5 None 1|15 5
end -9;assign 3 0;start -5;assign 3 0;assign 3 7;end -1;assign 5 2;assign 6 5;end 8;assign 8 10;start 11;\
assign 10 17;end 17;assign 11 7;end 6;assign 14 10;assign 16 10;assign 18 12;assign 20 12;|\
0,2,16 10,20 12,|0 0 10 None 16 16|28 20
start -19;assign 2 6;assign 2 13;end 0;assign 3 18;assign 6 20;start 2;assign 6 11;start -9;end -3;\
start -12;assign 8 18;start -2;end 19;assign 11 19;start -3;assign 13 21;end 10;start 15;assign 11 25;|\
0,1,11 25,|-1 -1 -1 None 11 None|30 11
assign 0 7;start -4;start -15;assign 0 9;assign 1 12;start -8;assign 1 6;start -7;assign 3 13;start 13;\
assign 4 17;assign 4 7;assign 7 0;assign 9 7;assign 5 10;start 9;assign 7 15;start -7;assign 10 19;|\
0,3,5 10,7 15,10 19,|10 10 100 7 None 7|18 7
assign 0 2;assign 3 7;start 1;start -5;end 1;assign 0 12;assign 3 14;assign 1 18;assign 1 23;assign 2 27;\
end 28;assign 3 31;assign 4 37;assign 7 25;assign 9 30;end 27;start 24;end 29;assign 9 35;assign 8 40;|\
0,3,1 24,7 25,8 40,|9 -1 -1 8 None 7|2 None
assign 3 7;assign 1 11;start 6;assign 4 16;assign 5 17;assign 8 23;end 17;assign 11 23;start 5;start 4;\
start 0;assign 13 23;assign 15 14;start 13;start 5;start -1;assign 16 16;assign 13 9;assign 13 0;start -1;\
assign 14 0;|0,1,14 0,|7 7 0 None 14 None|23 14
assign 0 7;end 5;assign 1 1;end -8;start -12;start -19;assign 4 4;assign 7 0;start -11;assign 3 1;end -4;\
start -2;start -14;assign 5 0;assign 6 2;assign 6 0;assign 9 0;start -3;assign 11 0;assign 11 0;end -11;\
assign 7 6;end -4;|0,1,7 6,|4 4 6 None 7 None|25 7
assign 1 6;start 3;start -12;assign 2 8;assign 3 0;assign 4 2;assign 1 7;assign 2 14;assign 5 18;\
assign 6 7;assign 7 7;end -6;start 5;end -4;end 3;assign 8 11;assign 11 15;assign 12 15;end 1;\
assign 11 16;assign 10 22;assign 7 26;|0,1,7 26,|9 -1 -1 7 None None|34 7
start -15;start -5;start -14;start 0;end -8;assign 1 7;assign 1 11;end 7;assign 1 16;start -5;assign 1 4;\
assign 3 8;assign 4 9;end 7;start -3;start 7;start 3;assign 6 9;assign 4 11;start 1;assign 1 15;\
assign 2 18;assign 5 13;start -9;|0,1,5 13,|10 -1 -1 5 None None|23 5
assign 0 5;assign 1 5;start -10;start -12;assign 2 8;end 6;start -16;assign 2 13;start -6;start -2;end 12;\
assign 0 18;assign 1 23;assign 4 28;assign 7 22;start 20;assign 9 24;assign 9 24;assign 11 14;start -7;\
assign 11 14;assign 10 20;end 12;|0,0,|-1 -1 -1 None None None|37 None
assign 2 4;assign 4 5;assign 0 11;assign 3 13;assign 3 14;assign 1 17;assign 1 12;assign 4 12;start -3;\
assign 4 13;assign 4 19;assign 4 9;assign 7 2;assign 9 5;assign 12 8;start -3;assign 13 12;assign 14 18;\
assign 16 20;assign 19 14;|0,5,7 2,9 5,12 8,13 12,19 14,|6 6 2 None 7 13|15 19
assign 1 0;assign 0 3;assign 1 5;assign 0 11;assign 0 12;assign 0 12;assign 2 7;end 2;assign 5 8;\
assign 7 14;assign 4 21;assign 6 22;start 0;assign 5 29;start 20;end 29;assign 8 29;start 11;assign 6 33;\
assign 6 27;end 18;assign 7 34;end 36;assign 7 36;|0,1,7 34,|6 6 34 None 7 None|24 None
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "leader-epoch-checkpoint"


@pytest.fixture
def cache(path: Path) -> LeaderEpochFileCache:
    return LeaderEpochFileCache(disk, path)


def assign(cache: LeaderEpochFileCache, *entries: tuple[int, int]) -> None:
    for epoch, start_offset in entries:
        cache.assign(epoch, start_offset)


def in_file(path: Path) -> list[tuple[int, int]]:
    """What another process would find."""
    return list(LeaderEpochFileCache(disk, path).entries)


@pytest.mark.parametrize("history", HISTORIES.strip().splitlines())
def test_a_history_ends_as_kafkas_did(history: str, path: Path) -> None:
    steps, file, about_epoch, about_offset = history.split("|")
    cache = LeaderEpochFileCache(disk, path, schedule=lambda flush: flush())
    for step in steps.rstrip(";").split(";"):
        verb, *numbers = step.split()
        change = {
            "assign": cache.assign,
            "end": cache.truncate_from_end,
            "start": cache.truncate_from_start,
        }[verb]
        change(*map(int, numbers))
    epoch, offset = int(about_epoch.split()[0]), int(about_offset.split()[0])
    end = cache.end_offset_for(epoch, 100)
    around = (cache.previous_epoch(epoch), cache.next_epoch(epoch), cache.previous_epoch())

    assert path.read_text().replace("\n", ",") == file
    assert " ".join(map(str, (epoch, *end, *around))) == about_epoch
    assert f"{offset} {cache.epoch_for_offset(offset)}" == about_offset


@pytest.mark.parametrize("kept", KEPT, ids=lambda path: str(path.relative_to(HERE)))
def test_a_brokers_file_is_written_again_byte_for_byte(kept: Path, path: Path) -> None:
    copy = LeaderEpochFileCache(disk, path)
    copy.assign_all(LeaderEpochFileCache(disk, kept).entries)
    if not copy.entries:
        copy.clear_and_flush()

    assert path.read_bytes() == kept.read_bytes()


def test_an_assigned_epoch_is_in_memory_and_in_the_file(cache: LeaderEpochFileCache, path: Path) -> None:
    assert cache.assign(2, 10) is True

    assert cache.latest_epoch == 2
    assert cache.latest_entry == cache.earliest_entry == cache.entry_of(2) == EpochEntry(2, 10)
    assert path.read_bytes() == b"0\n1\n2 10\n"
    assert cache.end_offset_for(2, 11) == (2, 11)


def test_the_latest_epoch_ends_at_the_log_end(cache: LeaderEpochFileCache) -> None:
    assign(cache, (2, 11), (3, 12))

    assert cache.end_offset_for(3, 14) == (3, 14)


def test_an_undefined_epoch_ends_nowhere(cache: LeaderEpochFileCache) -> None:
    assert cache.end_offset_for(-1, 0) == UNDEFINED
    assign(cache, (2, 11), (3, 12))

    assert cache.end_offset_for(-1, 14) == UNDEFINED


def test_an_empty_cache_knows_nothing(cache: LeaderEpochFileCache) -> None:
    assert cache.latest_epoch is None
    assert cache.latest_entry is None
    assert cache.earliest_entry is None
    assert cache.previous_epoch() is None
    assert cache.epoch_for_offset(0) is None
    assert cache.end_offset_for(0, 33) == UNDEFINED


def test_what_is_known_of_an_epoch_is_not_overwritten(cache: LeaderEpochFileCache) -> None:
    cache.assign(2, 6)

    assert cache.assign(2, 7) is False
    assert cache.assign(2, 6) is False
    assert cache.entries == ((2, 6),)
    assert cache.end_offset_for(2, 9) == (2, 9)


def test_a_leader_that_wrote_nothing_leaves_no_epoch(cache: LeaderEpochFileCache) -> None:
    assign(cache, (2, 9), (3, 9))

    assert cache.entries == ((3, 9),)


def test_an_epoch_below_the_first_gives_itself_and_the_first_start(cache: LeaderEpochFileCache) -> None:
    assign(cache, (5, 11), (6, 12), (7, 13))

    assert cache.end_offset_for(4, 18) == (4, 11)


def test_an_earlier_start_removes_what_it_contradicts(cache: LeaderEpochFileCache) -> None:
    assign(cache, (5, 11), (6, 12), (7, 13), (8, 15))
    assert cache.end_offset_for(5, 20) == (5, 12)
    cache.assign(6, 10)  # the first entry is removed too: it would start after this one

    assert cache.entries == ((6, 10),)


def test_an_epoch_ends_where_the_next_one_starts(cache: LeaderEpochFileCache) -> None:
    assign(cache, (1, 11), (1, 12), (2, 13), (2, 14), (3, 15), (3, 16))

    assert cache.end_offset_for(2, 17) == (2, 15)


def test_an_epoch_between_known_ones_gives_the_one_before(cache: LeaderEpochFileCache) -> None:
    assign(cache, (0, 10), (2, 13), (4, 17))

    assert cache.end_offset_for(1, 20) == (0, 13)
    assert cache.end_offset_for(2, 20) == (2, 17)
    assert cache.end_offset_for(3, 20) == (2, 17)


def test_an_epoch_of_the_future_ends_nowhere(cache: LeaderEpochFileCache) -> None:
    cache.assign(2, 100)

    assert cache.end_offset_for(3, 100) == UNDEFINED


def test_the_first_epoch_need_not_be_zero(cache: LeaderEpochFileCache) -> None:
    cache.assign(2, 6)

    assert cache.end_offset_for(2, 7) == (2, 7)
    assert cache.entries == ((2, 6),)


def test_epochs_outlive_the_cache(cache: LeaderEpochFileCache, path: Path) -> None:
    assign(cache, (2, 6), (4, 9))

    assert in_file(path) == [(2, 6), (4, 9)]


def test_an_older_epoch_removes_the_newer_ones(cache: LeaderEpochFileCache) -> None:
    assign(cache, (1, 5), (2, 6), (1, 7))

    assert cache.entries == ((1, 7),)


def test_a_lower_offset_removes_what_starts_behind_it(cache: LeaderEpochFileCache) -> None:
    assign(cache, (2, 6), (3, 5))

    assert cache.entries == ((3, 5),)


def test_leaders_change_many_times(cache: LeaderEpochFileCache) -> None:
    cache.assign(0, 0)
    cache.assign(1, 0)
    assert cache.end_offset_for(1, 0) == (1, 0)
    cache.assign(2, 5)
    assert cache.latest_epoch == 2
    assert cache.end_offset_for(1, 9) == (1, 5)
    assert cache.end_offset_for(2, 9) == (2, 9)
    cache.assign(2, 9)
    assert cache.entries == ((1, 0), (2, 5))


def test_a_follower_receives_many_batches(cache: LeaderEpochFileCache) -> None:
    for epoch, offset in [(0, 0), (0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)]:
        cache.assign(epoch, offset)

    assert cache.entries == ((0, 0), (1, 3), (2, 5))
    assert [cache.end_offset_for(epoch, 7) for epoch in (0, 1, 2)] == [(0, 3), (1, 5), (2, 7)]


@pytest.mark.parametrize(
    ("end_offset", "left"),
    [
        (8, [(2, 6)]),  # on a boundary
        (9, [(2, 6), (3, 8)]),  # between two
        (11, [(2, 6), (3, 8)]),
        (12, [(2, 6), (3, 8), (4, 11)]),
        (0, []),
        (-1, [(2, 6), (3, 8), (4, 11)]),
    ],
)
def test_the_end_is_cut_at_an_offset(
    cache: LeaderEpochFileCache, end_offset: int, left: list[tuple[int, int]]
) -> None:
    assign(cache, (2, 6), (3, 8), (4, 11))
    cache.truncate_from_end(end_offset)

    assert list(cache.entries) == left


@pytest.mark.parametrize(
    ("start_offset", "left"),
    [
        (8, [(3, 8), (4, 11)]),  # on a boundary
        (9, [(3, 9), (4, 11)]),  # between two: the epoch that covers it starts there now
        (1, [(2, 6), (3, 8), (4, 11)]),  # before all
        (6, [(2, 6), (3, 8), (4, 11)]),
        (7, [(2, 7), (3, 8), (4, 11)]),
        (11, [(4, 11)]),
        (15, [(4, 15)]),
        (-1, [(2, 6), (3, 8), (4, 11)]),
    ],
)
def test_the_start_is_cut_at_an_offset(
    cache: LeaderEpochFileCache, start_offset: int, left: list[tuple[int, int]]
) -> None:
    assign(cache, (2, 6), (3, 8), (4, 11))
    cache.truncate_from_start(start_offset)

    assert list(cache.entries) == left


def test_cutting_an_empty_cache_does_nothing(cache: LeaderEpochFileCache, path: Path) -> None:
    cache.truncate_from_start(7)
    cache.truncate_from_end(7)
    cache.flush()

    assert cache.entries == ()
    assert not path.exists()


def test_all_entries_are_cleared_from_the_file_too(cache: LeaderEpochFileCache, path: Path) -> None:
    assign(cache, (2, 6), (3, 8))
    cache.clear_and_flush()

    assert cache.entries == ()
    assert path.read_bytes() == b"0\n0\n"


def test_cuts_are_in_the_file_after_a_flush_and_not_before(cache: LeaderEpochFileCache, path: Path) -> None:
    assign(cache, (2, 6), (3, 8), (4, 11))
    cache.truncate_from_end(11)
    cache.truncate_from_start(7)
    assert in_file(path) == [(2, 6), (3, 8), (4, 11)]
    cache.flush()

    assert in_file(path) == [(2, 7), (3, 8)]


def test_each_cut_asks_for_a_flush(path: Path) -> None:
    asked = []
    cache = LeaderEpochFileCache(disk, path, schedule=asked.append)
    assign(cache, (2, 6), (3, 8), (4, 11))
    cache.truncate_from_end(11)
    cache.truncate_from_start(8)
    cache.truncate_from_end(100)  # cuts nothing
    assert len(asked) == 2
    for flush in asked:
        flush()

    assert in_file(path) == [(3, 8)]


def test_a_flush_of_a_removed_directory_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    path = tmp_path / "t-0" / "leader-epoch-checkpoint"
    cache = LeaderEpochFileCache(disk, path)
    assign(cache, (2, 6), (3, 8))
    cache.truncate_from_end(8)
    path.unlink()
    path.parent.rmdir()
    cache.flush()

    with pytest.raises(DiskError):
        cache.assign(5, 9)


def test_a_renamed_log_has_its_file_in_the_new_place(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    cache = LeaderEpochFileCache(disk, tmp_path / "t-0" / "leader-epoch-checkpoint")
    cache.assign(1, 0)
    disk.rename(tmp_path / "t-0", tmp_path / "t-0.x-stray")
    cache.move_to(tmp_path / "t-0.x-stray" / "leader-epoch-checkpoint")
    cache.assign(2, 5)

    assert in_file(tmp_path / "t-0.x-stray" / "leader-epoch-checkpoint") == [(1, 0), (2, 5)]
    assert not (tmp_path / "t-0").exists()


def test_neighbours_of_an_epoch_are_found(cache: LeaderEpochFileCache) -> None:
    assign(cache, (2, 10), (4, 15), (10, 25))

    assert [cache.previous_epoch(epoch) for epoch in (2, 3, 4, 10, 11)] == [None, 2, 2, 4, 10]
    assert [cache.previous_entry(epoch) for epoch in (2, 4, 42)] == [None, (2, 10), (10, 25)]
    assert [cache.next_epoch(epoch) for epoch in (0, 2, 3, 4, 10, 42)] == [2, 4, 4, 10, None, None]
    assert [cache.entry_of(epoch) for epoch in (1, 2, 4, 10, 11)] == [None, (2, 10), (4, 15), (10, 25), None]


def test_the_epoch_before_the_latest_follows_cuts(cache: LeaderEpochFileCache) -> None:
    cache.assign(1, 10)
    assert cache.previous_epoch() is None
    assign(cache, (2, 15), (5, 20))
    assert cache.previous_epoch() == 2
    cache.truncate_from_end(18)
    assert cache.previous_epoch() == 1
    cache.truncate_from_start(18)

    assert cache.previous_epoch() is None


def test_an_offset_belongs_to_the_epoch_that_covers_it(cache: LeaderEpochFileCache) -> None:
    assign(cache, (2, 10), (4, 15), (10, 25))

    assert [cache.epoch_for_offset(offset) for offset in (8, 10, 14, 15, 24, 25, 200)] == [
        None,
        2,
        2,
        4,
        4,
        10,
        10,
    ]


@pytest.mark.parametrize(("epoch", "offset"), [(-1, 0), (0, -1)])
def test_neither_epoch_nor_offset_is_negative(cache: LeaderEpochFileCache, epoch: int, offset: int) -> None:
    with pytest.raises(UsageError):
        cache.assign_all([EpochEntry(1, 1), EpochEntry(epoch, offset)])

    assert cache.entries == ()


def test_a_refused_write_is_made_up_for_by_the_next_flush(path: Path) -> None:
    cache = LeaderEpochFileCache(disk, path)
    path.mkdir()  # nothing can be renamed over a directory
    with pytest.raises(DiskError):
        cache.assign(1, 0)
    path.rmdir()
    cache.flush()

    assert in_file(path) == [(1, 0)]


@pytest.mark.parametrize("line", ["0 1 2", "-1 0", "1 -4"])
def test_a_line_that_is_no_epoch_is_refused(path: Path, line: str) -> None:
    path.write_text(f"0\n1\n{line}\n")

    with pytest.raises(CorruptCheckpointError, match="line 3"):
        LeaderEpochFileCache(disk, path)
