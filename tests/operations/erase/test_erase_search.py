"""The search of log files as tasks: found once, not read again, and never in another machine's file."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from stratalog.engine.threads import ThreadEngine
from stratalog.errors import CorruptRecordError, DiskError, OtherFileError
from stratalog.files.reading import DiskReader
from stratalog.files.stamps import FileStamp
from stratalog.log.cleaning.erase import FileOfBatches, find_records
from stratalog.log.cleaning.erase_selection import Found, Matcher, Selection
from stratalog.operations.erase.erase_search import SearchTask, search_file, search_files
from tests.cli.erasing import COUNT, SETTINGS
from tests.cli.planting import Planted
from tests.log.model import batch

KEY = Selection.of([b"1"])


@pytest.fixture
def logs(tmp_path: Path) -> list[str]:
    """Twenty-one records of three keys in five segments; every third has the key 1."""
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", COUNT, keys=3)
    return sorted(map(str, planted.data.glob("t-0/*.log")))


def search(paths: list[str]) -> dict[str, object]:
    return dict(search_files(ThreadEngine(1), DiskReader(), paths, KEY, lambda _: None))


def test_the_records_of_a_key_are_counted_by_file(logs: list[str]) -> None:
    found = [each for each in search(logs).values() if isinstance(each, Found)]

    assert [each.records_count for each in found] == [2, 1, 2, 2, 0]
    assert [each.last_offset for each in found] == [4, 9, 14, 19, 20]


def test_a_damaged_file_is_searched_up_to_its_damage(logs: list[str]) -> None:
    size = len(batch(b"0000", key=b"0"))
    with Path(logs[0]).open("r+b") as file:
        file.seek(3 * size + 70)
        file.write(b"\xff")

    found = search(logs)[logs[0]]

    assert isinstance(found, Found)
    assert found.records_count == 1
    assert isinstance(found.problem, CorruptRecordError)


def test_a_worker_with_another_file_under_this_path_finds_nothing_but_an_error(logs: list[str]) -> None:
    task = SearchTask(FileStamp.of(DiskReader(), logs[1]), KEY)
    os.utime(logs[1], (0, 0))

    with pytest.raises(OtherFileError, match="not the file for which the work was planned"):
        search_file(DiskReader(), pickle.loads(pickle.dumps(task)))


def test_what_was_found_is_not_read_again_and_an_error_is_raised_where_the_file_is_needed(
    logs: list[str],
) -> None:
    matcher = Matcher(KEY)
    matcher.known = {logs[0]: Found(records_count=7), logs[1]: DiskError(logs[1], "planted")}

    assert find_records(FileOfBatches(DiskReader(), logs[0]), matcher).records_count == 7
    with pytest.raises(DiskError, match="planted"):
        find_records(FileOfBatches(DiskReader(), logs[1]), matcher)
    assert find_records(FileOfBatches(DiskReader(), logs[2]), matcher).records_count == 2
