"""Pipes and broken indexes, where the dry run of `recover` and the run did not say the same."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from stratalog.operations.report import Status
from tests.operations.recovering import both


def test_a_dry_run_refused_an_index_of_aborted_transactions_that_the_run_repairs(killed: Path) -> None:
    index = killed / "rolled-0" / f"{0:020d}.txnindex"
    index.write_bytes(struct.pack(">bbqqqq", 1, 0, 7, 10, 20, 20))

    planned, done = both(killed, scan_all=True)

    assert planned.status == done.status == Status.FINDINGS


def test_a_dry_run_refuses_an_index_of_aborted_transactions_that_the_run_leaves_alone(clean: Path) -> None:
    index = clean / "rolled-0" / f"{0:020d}.txnindex"
    index.write_bytes(struct.pack(">bbqqqq", 1, 0, 7, 10, 20, 20))

    planned, done = both(clean)

    assert planned.status == done.status == Status.FAILED


def test_a_pipe_that_has_the_name_of_a_small_file_was_an_error_of_no_file(killed: Path) -> None:
    checkpoint = killed / "rolled-0" / "leader-epoch-checkpoint"
    checkpoint.unlink()
    os.mkfifo(checkpoint)

    planned, done = both(killed)

    assert planned.words() == done.words()
    assert str(checkpoint) in done.words()[0]


@pytest.mark.parametrize("partition", ["", "rolled-0"])
def test_a_dry_run_waited_for_ever_at_a_pipe_that_has_the_name_of_a_lock(
    killed: Path, partition: str
) -> None:
    lock = killed / partition / ".lock"
    lock.unlink(missing_ok=True)
    os.mkfifo(lock)

    planned, done = both(killed)

    assert planned.status == done.status == Status.FINE
