"""Changes in a directory of a manager: one that the disk refuses takes the directory offline."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import DiskError, LogDeletedError, UsageError
from stratalog.manager.manager import LogManager
from tests.manager.failing import Three
from tests.manager.running import MINUTE_MS, ORDERS, Node, append, checkpoint, directories_in, filled


def offline_in(manager: LogManager) -> list[bool]:
    return [not directory.is_online for directory in manager.directories]


def test_what_the_disk_refuses_takes_its_directory_offline_before_it_is_raised(three: Three) -> None:
    manager = three.start()
    log = manager.get_log(three.keys[1])
    assert log is not None
    home = manager._homes.of(log)
    assert home.path == str(three.paths[1])

    def refuse() -> None:
        raise DiskError(home.path, "pulled out")

    with pytest.raises(DiskError, match="pulled out"):
        manager._homes.act_in(home, refuse)

    assert offline_in(manager) == [False, True, False]
    manager.shutdown()


def test_an_error_that_is_not_the_disk_s_costs_no_directory(three: Three) -> None:
    manager = three.start()

    def refuse() -> None:
        raise UsageError("not now")

    with pytest.raises(UsageError, match="not now"):
        manager._homes.act_in(manager.directories[0], refuse)

    assert offline_in(manager) == [False, False, False]
    manager.shutdown()


def test_a_log_that_is_retired_refuses_changes_and_goes_after_the_delay(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with node.running() as manager:
        log = filled(manager)

        manager._homes.retire(log, lambda: LogDeletedError(log.directory))

        with pytest.raises(LogDeletedError):
            append(log, b"late")
        (name,) = directories_in(tmp_path)
        assert name.endswith("-delete")
        node.wait(MINUTE_MS)
        assert directories_in(tmp_path) == []
        manager._logs.remove(ORDERS, is_future=False)


def test_the_checkpoints_of_one_directory_are_written(three: Three) -> None:
    manager = three.start()
    for log in manager.all_logs():
        log.flush()

    manager._homes.checkpoint_all(manager.directories[1])

    assert checkpoint(three.paths[1], "recovery-point-offset-checkpoint") == {"orders-1": 1}
    assert not (three.paths[0] / "recovery-point-offset-checkpoint").exists()
    manager.shutdown()
