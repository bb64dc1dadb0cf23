"""Groups, commits and lag, against what Kafka's own dump tool printed of the fixtures."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import stratalog
from stratalog.errors import DiskError, UsageError
from stratalog.files.entries import DirectoryEntry
from stratalog.files.reading import DiskReader
from stratalog.operations.report import Status
from stratalog.questions.groups import ConsumerGroup, GroupLag, GroupMember, GroupsQuestion, GroupsReport
from tests.fixtures.catalog import log_dirs, partitions
from tests.jobs.decoded import dumped_parts, parts
from tests.jobs.reading.making import kafka_rows

STATES = ("clean", "killed")


def logs(state: str) -> Path:
    (found,) = log_dirs("4.3.1", state)
    return found


def committed(state: str) -> dict[tuple[str, str, int], int]:
    """The last commit of each key by the dump; a record without a value deletes it.

    The fixtures have no aborted commit.
    """
    found: dict[tuple[str, str, int], int] = {}
    for _, text in sorted(dumped_parts("consumer_offsets", state)[0].items()):
        if "payload: " not in text:
            continue
        key, value = parts(text)
        if not isinstance(key, dict) or "topic" not in key:
            continue
        place = (key["group"], key["topic"], key["partition"])
        found.pop(place, None)
        if value is not None:
            found[place] = value["offset"]
    return found


def ends(state: str) -> dict[str, int]:
    return {
        each.name: max((batch["lastOffset"] + 1 for batch, _ in kafka_rows(each)), default=0)
        for each in partitions("4.3.1", state)
    }


@pytest.mark.parametrize("state", STATES)
def test_commits_are_those_of_the_dump_and_lag_is_to_the_end_of_the_log(state: str) -> None:
    report = GroupsQuestion(directories=[str(logs(state))]).run()

    expected: dict[tuple[str, str, int], Any] = {
        place: (offset, ends(state)[f"{place[1]}-{place[2]}"]) for place, offset in committed(state).items()
    }
    found = {
        (each.group, each.topic, each.partition): (each.committed_offset, each.end_offset)
        for each in report.lags
    }
    assert found == expected
    assert found
    assert all(each.lag == (each.end_offset or 0) - (each.committed_offset or 0) for each in report.lags)
    assert report.status is Status.FINE
    assert report.totals()["commits"] == len(expected)


def test_a_group_without_members_is_there() -> None:
    report = GroupsQuestion(directories=[str(logs("clean"))]).run()

    types = {each.group: each.type for each in report.groups}
    assert types["without-members"] == "classic"  # as `kafka-groups.sh` lists it
    assert types["classic"] == "classic"
    assert types["consumer-protocol"] == "consumer"


def test_one_group_is_shown_if_it_is_named() -> None:
    report = GroupsQuestion(directories=[str(logs("clean"))], names=["classic"]).run()

    assert [each.group for each in report.groups] == ["classic"]
    assert {each.group for each in report.lags} == {"classic"}


def test_a_group_that_is_not_there_is_told() -> None:
    with pytest.raises(UsageError, match=r"--group names clasic, .* did you mean classic"):
        GroupsQuestion(directories=[str(logs("clean"))], names=["clasic"]).run()


def test_a_lag_to_an_end_that_is_damaged_is_a_finding(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(logs("killed"), tmp_path / "logs"))
    (_, topic, partition), _ = min(committed("killed").items())
    log, end = max(copy.glob(f"{topic}-{partition}/*.log")), ends("killed")[f"{topic}-{partition}"]
    os.truncate(log, log.stat().st_size - 1)
    (copy / "replication-offset-checkpoint").write_text(f"0\n1\n{topic} {partition} {end}\n")

    report = GroupsQuestion(directories=[str(copy)]).run()

    (problem,) = report.problems
    assert problem in report.words()
    assert f"the log reached offset {end}" in problem
    assert report.status is Status.FINDINGS
    assert {each.lag for each in report.lags if (each.topic, each.partition) == (topic, partition)} == {None}


class Unreadable(DiskReader):
    """A reader that may not look into some folders."""

    def __init__(self, *folders: Path) -> None:
        super().__init__()
        self._folders = tuple(map(str, folders))

    def list_directory(self, path: str | os.PathLike[str]) -> list[DirectoryEntry]:
        self._refuse(path)
        return super().list_directory(path)

    def read_file(self, path: str | os.PathLike[str]) -> bytes | None:
        self._refuse(path)
        return super().read_file(path)

    def _refuse(self, path: str | os.PathLike[str]) -> None:
        if os.fspath(path).startswith(self._folders):
            raise DiskError(path, "Permission denied", errno.EACCES)


def test_one_log_that_could_not_be_read_hid_all_groups() -> None:
    (_, topic, partition), _ = min(committed("clean").items())
    whole = GroupsQuestion(directories=[str(logs("clean"))]).run()
    folder = logs("clean") / f"{topic}-{partition}"

    report = GroupsQuestion(directories=[str(logs("clean"))], disk=Unreadable(folder)).run()

    assert (report.groups, report.members) == (whole.groups, whole.members)
    assert report.lags == tuple(
        replace(each, end_offset=None, lag=None)
        if (each.topic, each.partition) == (topic, partition)
        else each
        for each in whole.lags
    )
    (remark,) = report.unread
    assert remark in report.words()
    assert remark.startswith(f"The lag in {topic}-{partition} is not known. {folder}")
    assert report.status is Status.FAILED
    assert f"{topic}-{partition} is not known" in report.verdict


def test_a_log_that_no_group_reads_may_be_unreadable() -> None:
    whole = GroupsQuestion(directories=[str(logs("clean"))]).run()
    read = {f"{each.topic}-{each.partition}" for each in whole.lags}
    names = {each.name for each in partitions("4.3.1", "clean")} - read
    folder = logs("clean") / min(name for name in names if not name.startswith("__"))

    report = GroupsQuestion(directories=[str(logs("clean"))], disk=Unreadable(folder)).run()

    assert report == whole
    assert report.status is Status.FINE


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_log_that_was_truncated_inside_a_batch_has_a_lag(tmp_path: Path, is_closed: bool) -> None:
    copy = Path(shutil.copytree(logs("clean"), tmp_path / "logs"))
    (_, topic, partition), committed_offset = min(committed("clean").items())
    end = ends("clean")[f"{topic}-{partition}"]
    with stratalog.open_log(copy / f"{topic}-{partition}") as log:
        log.truncate_to(end - 1)
    with stratalog.open_log(copy / f"{topic}-{partition}", read_only=True) as log:
        readable_end = log.end_offset
    if not is_closed:
        (copy / ".kafka_cleanshutdown").unlink()

    report = GroupsQuestion(directories=[str(copy)]).run()

    assert readable_end < end - 1
    assert (report.problems, report.status) == ((), Status.FINE)
    assert (topic, partition, readable_end, readable_end - committed_offset) in {
        (each.topic, each.partition, each.end_offset, each.lag) for each in report.lags
    }


def test_a_directory_without_groups_has_none(tmp_path: Path) -> None:
    stratalog.open_log(tmp_path / "orders-0", create=True).close()

    report = GroupsQuestion(directories=[str(tmp_path)]).run()

    assert report.verdict.startswith("The topic __consumer_offsets is not in these directories, so no group")
    with pytest.raises(UsageError, match="__consumer_offsets is not in these directories"):
        GroupsQuestion(directories=[str(tmp_path)], names=["classic"]).run()


def test_a_member_is_shown_with_what_it_has() -> None:
    report = GroupsReport(
        groups=(ConsumerGroup(group="g", type="classic", generation=3, protocol="range", members=1),),
        lags=(
            GroupLag(
                group="g",
                topic="orders",
                partition=1,
                committed_offset=5,
                end_offset=9,
                lag=4,
                committed_at=0,
                member="m-1",
            ),
        ),
        members=(
            GroupMember(
                group="g",
                member="m-1",
                instance="static",
                client="c",
                host="/10.0.0.1",
                topics=("orders",),
                assignment=("orders-1",),
            ),
        ),
    )

    groups, lags, members = report.tables()

    assert groups.rows == [["g", "classic", "3", "range", "1"]]
    assert lags.rows[0][:5] == ["g", "orders-1", "5", "9", "4"]
    assert members.rows == [["g", "m-1 (static)", "c", "/10.0.0.1", "orders", "orders-1"]]
    assert (
        report.verdict
        == "1 group: 4 records left to read in 1 group; the largest lag is 4, of g in orders-1."
    )


def test_a_lag_that_is_not_known_is_not_said_to_be_none(tmp_path: Path) -> None:
    name = next(each.name for each in logs("clean").iterdir() if each.name.startswith("__consumer_offsets-"))
    shutil.copytree(logs("clean") / name, tmp_path / name)

    report = GroupsQuestion(directories=[str(tmp_path)]).run()

    assert report.lags
    assert "rolled-0, txn-0 is not known;" in report.verdict
    assert "none has records left" not in report.verdict


def a_lag(topic: str, committed_offset: int | None, end_offset: int | None) -> GroupLag:
    is_known = committed_offset is not None and end_offset is not None
    return GroupLag(
        group="live",
        topic=topic,
        partition=0,
        committed_offset=committed_offset,
        end_offset=end_offset,
        lag=(end_offset or 0) - (committed_offset or 0) if is_known else None,
        committed_at=None,
    )


UNCOMMITTED = "the lag of live in orders-0 is not known, because nothing is committed"


@pytest.mark.parametrize(
    ("lags", "verdict"),
    [
        ([a_lag("orders", None, 13_000)], f"1 group: {UNCOMMITTED}."),
        (
            [a_lag("orders", None, 13_000), a_lag("read", 5, 5)],
            f"1 group: {UNCOMMITTED}; none has records left in other logs.",
        ),
        (
            [a_lag("orders", None, 13_000), a_lag("behind", 5, 9)],
            "1 group: 4 records left to read in 1 group; the largest lag is 4, of live in behind-0; "
            f"{UNCOMMITTED}.",
        ),
        ([a_lag("away", 5, None)], "1 group: the lag in away-0 is not known."),
        ([], "1 group: the lag of live is not known, because nothing is committed."),
        ([a_lag("read", 5, 5)], "1 group: none has records left to read in the logs that are here."),
    ],
)
def test_a_group_that_has_committed_nothing_is_not_said_to_have_read_everything(
    lags: list[GroupLag], verdict: str
) -> None:
    live = ConsumerGroup(group="live", type="consumer", generation=3, protocol=None, members=1)

    assert GroupsReport(groups=(live,), lags=tuple(lags), members=()).verdict == verdict
