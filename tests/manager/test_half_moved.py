"""A node that was killed between the two renames that end a move: its log is in two directories then."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from stratalog.errors import UsageError
from stratalog.files.disk import Disk
from stratalog.files.entries import Path as AnyPath
from stratalog.log.log import Log
from stratalog.manager.manager import LogManager
from tests.log.model import batch
from tests.manager.running import ORDERS, Node, checkpoint, values

CLEAN = "cleaner-offset-checkpoint"


class PhotographedDisk(Disk):
    """Copies all directories when a log is about to be marked -delete: what a kill would leave there."""

    def __init__(self, root: Path, photo: Path) -> None:
        super().__init__()
        self._root, self._photo = root, photo

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        if os.fspath(target).endswith("-delete") and not self._photo.exists():
            shutil.copytree(self._root, self._photo)
        super().rename(source, target)


def killed(tmp_path: Path, prepare: Callable[[LogManager, Log], object] = lambda *_: None) -> Node:
    """A node whose log of three records was being moved from `one` to `two`."""
    root, photo = tmp_path / "before", tmp_path / "after"
    node = Node(root / "one", root / "two", disk=PhotographedDisk(root, photo))
    with node.running(high_watermark_follows_end=True) as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, directory=root / "one")
        for value in (b"a", b"b", b"c"):
            log.append_as_leader(batch(value), leader_epoch=0)
        prepare(manager, log)
        manager.move_log(ORDERS, root / "two")
    assert (photo / "one" / "orders-0").is_dir()
    assert (photo / "two" / "orders-0").is_dir()
    return Node(photo / "one", photo / "two")


def the_log(manager: LogManager) -> Log:
    log = manager.get_log(ORDERS)
    assert log is not None
    return log


def test_a_node_that_was_killed_between_the_two_renames_of_a_move_starts(tmp_path: Path) -> None:
    with killed(tmp_path).running(high_watermark_follows_end=True) as manager:
        assert values(the_log(manager)) == [b"a", b"b", b"c"]
        the_log(manager).append_as_leader(batch(b"d"), leader_epoch=0)

    node = Node(tmp_path / "after" / "one", tmp_path / "after" / "two")
    with node.running(high_watermark_follows_end=True) as manager:
        assert values(the_log(manager)) == [b"a", b"b", b"c", b"d"]
    live = [*(tmp_path / "after").glob("*/orders-0")]
    assert len(live) == 1


def test_the_other_half_of_a_move_is_removed_like_any_deleted_log(tmp_path: Path) -> None:
    node = killed(tmp_path)
    with node.running(high_watermark_follows_end=True):
        assert len([*(tmp_path / "after").glob("*/orders-0.*-delete")]) == 1
        node.wait(100_000)

        assert [*(tmp_path / "after").glob("*/orders-0.*-delete")] == []


def test_records_that_were_deleted_before_a_move_that_was_killed_are_not_back(tmp_path: Path) -> None:
    node = killed(tmp_path, lambda _, log: log.delete_records(2))

    with node.running(high_watermark_follows_end=True) as manager:
        assert values(the_log(manager)) == [b"c"]


def test_how_clean_a_log_was_is_not_known_after_a_move_that_was_killed(tmp_path: Path) -> None:
    node = killed(tmp_path)
    for directory in node.directories:
        Path(directory, CLEAN).write_text("0\n2\norders 0 3\nother 0 7\n")

    with node.running(high_watermark_follows_end=True):
        assert [checkpoint(directory, CLEAN) for directory in node.directories] == [{"other-0": 7}] * 2


def test_two_logs_that_differ_keep_a_node_from_starting(tmp_path: Path) -> None:
    node = killed(tmp_path)
    for name, value in (("one", b"ours"), ("two", b"them")):
        apart = Node(tmp_path / "after" / name)
        with apart.running(high_watermark_follows_end=True) as manager:
            the_log(manager).append_as_leader(batch(value), leader_epoch=0)

    with pytest.raises(UsageError, match="orders-0 is also in"):
        node.start()
    assert len([*(tmp_path / "after").glob("*/orders-0")]) == 2


def test_a_shorter_log_that_is_there_too_keeps_a_node_from_starting(tmp_path: Path) -> None:
    node = killed(tmp_path)
    with Node(tmp_path / "after" / "one").running(high_watermark_follows_end=True) as manager:
        the_log(manager).append_as_leader(batch(b"d"), leader_epoch=0)

    with pytest.raises(UsageError, match="orders-0 is also in"):
        node.start()
