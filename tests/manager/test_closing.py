"""The end of a clean run: the clean-shutdown files, their epoch, and what a failure costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stratalog.errors import DiskError
from stratalog.files.lock import is_locked
from stratalog.files.names import TopicPartition
from tests.manager.failing import Three
from tests.manager.running import MARKER, Node, append, checkpoint, epoch_in, fixture_copy


def test_a_manager_that_is_closed_when_its_process_ends_leaves_a_clean_directory(tmp_path: Path) -> None:
    program = """if True:
        import atexit
        import sys

        from stratalog.files.names import TopicPartition
        from stratalog.manager.manager import LogManager

        manager = LogManager([sys.argv[1]])
        atexit.register(manager.shutdown)
        manager.startup()
        manager.get_or_create_log(TopicPartition("orders", 0), is_new=True)
    """

    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )

    assert ran.stderr == ""
    assert (tmp_path / MARKER).exists()


def test_a_directory_that_was_opened_clean_gets_its_epoch_back(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    expected = (data / MARKER).read_bytes()

    with Node(data).running() as manager:
        log = manager.get_log(TopicPartition("txn", 0))
        assert log is not None
        append(log, b"more")

    assert (data / MARKER).read_bytes() == expected


def test_a_broker_says_its_epoch_in_every_directory(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in "ab"]
    manager = Node(*directories).start()

    manager.shutdown(broker_epoch=42)

    assert [epoch_in(directory) for directory in directories] == [42, 42]
    manager.shutdown(broker_epoch=43)
    assert epoch_in(directories[0]) == 42


def test_a_new_directory_has_no_epoch(tmp_path: Path) -> None:
    with Node(tmp_path / "new").running():
        pass

    assert epoch_in(tmp_path / "new") == -1


def test_no_marker_has_an_epoch_when_one_directory_failed(three: Three) -> None:
    manager = three.start()
    three.break_first()

    manager.checkpoint_log_recovery_offsets()
    manager.shutdown(broker_epoch=9)

    assert three.epochs() == [None, -1, -1]


def test_a_log_that_cannot_be_closed_costs_its_directory_the_marker(three: Three) -> None:
    manager = three.start()
    manager.checkpoint_high_watermarks()
    log = manager.get_log(three.keys[0])
    assert log is not None
    three.disk.broken = log.directory

    with pytest.raises(DiskError):
        manager.shutdown(broker_epoch=9)

    assert three.epochs() == [None, -1, -1]
    assert checkpoint(three.paths[1], "recovery-point-offset-checkpoint") == {"orders-1": 1}
    assert not any(is_locked(path) for path in three.paths)


def test_a_marker_that_cannot_be_written_takes_the_epoch_from_the_others(three: Three) -> None:
    manager = three.start()
    three.disk.broken = str(three.paths[2] / MARKER)

    manager.shutdown(broker_epoch=9)  # all records are on the device, so this is no error of the caller's

    assert three.epochs() == [-1, -1, None]
    assert [directory.failure is None for directory in manager.directories] == [True, True, False]


def test_all_is_well_is_what_the_epoch_says(three: Three) -> None:
    three.start().shutdown(broker_epoch=9)

    assert three.epochs() == [9, 9, 9]
