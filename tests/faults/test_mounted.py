"""Real small file systems: full, made read-only under a writer, and on a device that fails.

Skipped, in words, where the machine does not let us mount.
"""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path

import pytest

from tests.faults import mounted

EXPECTED = {
    "tmpfs full": {errno.ENOSPC},
    "ext4 full": {errno.ENOSPC},
    "ext4 full, a lone log": {errno.ENOSPC},
    # The first call after the error may be an fsync, which says what happened to the bytes.
    "ext4 read-only": {errno.EROFS, errno.EIO},
    # fsync returns the error of the device: a loop device without room returns that one.
    "ext4 failing": {errno.EIO, errno.EROFS, errno.ENOSPC},
}


@pytest.mark.skipif(sys.platform != "linux", reason="mounts are made as Linux makes them")
@pytest.mark.parametrize("scenario", mounted.SCENARIOS)
def test_what_was_flushed_is_there_when_the_file_system_is_well_again(scenario: str, tmp_path: Path) -> None:
    report = json.loads(mounted.printed(scenario, tmp_path))

    assert report["errno"] in EXPECTED[scenario]
    assert report["offline"] == 1
    assert report["reason"] not in ("None", "")
    assert report["served"] == 20
    assert report["flushed"]["orders-0"] >= 50
    if scenario == "ext4 failing":  # the device was full, the file system on it was not
        assert report["flushed"]["orders-0"] * mounted.VALUE_SIZE < mounted.BEHIND_THE_DEVICE
