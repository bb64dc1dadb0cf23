"""The result of a recovery as values that JSON has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.directory.recovery.result import DirectoryReport, Outcome, RecoveryReport, to_document
from stratalog.engine.devices import Device
from stratalog.engine.progress import DeviceUse
from tests.directory.recovery.recovering import RECOVERY_POINTS, damage, ends_by_kafka, recover

IDEMPOTENT = "00000000000000000000.log"


def logs_size(partition: Path) -> int:
    return sum(path.stat().st_size for path in partition.glob("*.log"))


def test_a_document_says_where_each_log_ends_and_what_was_cut(killed: Path) -> None:
    log = killed / "idempotent-0" / IDEMPOTENT
    (killed / RECOVERY_POINTS).unlink()
    lost = damage(log)
    before = logs_size(log.parent)

    found = json.loads(json.dumps(to_document(recover(killed))))

    (directory,) = found["directories"]
    assert (directory["directory"], directory["outcome"], directory["error"]) == (
        str(killed),
        "recovered",
        None,
    )
    ends = {each["partition"]: each["log_end_offset"] for each in directory["partitions"]}
    assert ends == {**ends_by_kafka("killed"), "idempotent-0": lost}
    (partition,) = [each for each in directory["partitions"] if each["cuts"]]
    cuts = partition["cuts"]
    assert partition["partition"] == "idempotent-0"
    assert {cut["first_offset"] for cut in cuts if cut["file"] == IDEMPOTENT} == {lost}
    assert sum(cut["bytes"] for cut in cuts) == partition["cut_bytes"] == before - logs_size(log.parent)
    assert [(killed / cut["kept_as"]).stat().st_size for cut in cuts] == [cut["bytes"] for cut in cuts]


@pytest.mark.parametrize(("seconds", "rate"), [(0.5, 8192), (0.0, 0)])
def test_a_device_s_rate_is_its_bytes_by_its_seconds(seconds: float, rate: int) -> None:
    use = DeviceUse(
        device=Device(1, "sda"),
        bytes_read=4096,
        seconds=seconds,
        rate=1.0,
        readers=0,
        most_readers=3,
        busy=0.12345,
    )

    document = to_document(RecoveryReport(directories=(), devices=(use,)))

    assert document["devices"] == [
        {
            "device": "sda",
            "bytes": 4096,
            "seconds": seconds,
            "bytes_per_second": rate,
            "readers": 3,
            "utilisation": 0.123,
        }
    ]


@pytest.mark.parametrize(
    ("outcomes", "is_failed"),
    [
        ([], False),
        ([Outcome.CLEAN, Outcome.RECOVERED, Outcome.PLANNED], False),
        ([Outcome.RECOVERED, Outcome.FAILED], True),
    ],
)
def test_one_directory_that_failed_fails_all(outcomes: list[Outcome], is_failed: bool) -> None:
    directories = tuple(DirectoryReport(directory="/data", outcome=outcome) for outcome in outcomes)

    assert RecoveryReport(directories=directories).is_failed is is_failed
