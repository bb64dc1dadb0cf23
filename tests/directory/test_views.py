"""A view of a partition in a log directory."""

from __future__ import annotations

from stratalog.clock import system_clock
from stratalog.directory.partitions import list_partitions
from stratalog.directory.views import open_view
from stratalog.files.disk import Disk
from tests.fixtures.catalog import log_dirs


def test_a_view_knows_what_the_directory_keeps_for_its_log() -> None:
    (logs,) = log_dirs("4.3.1", "clean")
    (trimmed,) = [each for each in list_partitions(Disk(), str(logs)) if each.entry.name == "trimmed-0"]

    view = open_view(Disk(), system_clock, trimmed)

    assert view.log_start_offset == 17  # by the broker's own log-start-offset-checkpoint
    assert view.left == trimmed.left
    assert view.end().was_closed
