"""The progress of an operation, in words."""

from __future__ import annotations

from stratalog.cli.progress import progress_line
from stratalog.directory.recovery.progress import Phase
from stratalog.engine.devices import Device
from stratalog.engine.progress import DeviceUse, Progress, Remaining


def test_a_line_tells_how_far_it_is() -> None:
    progress = Progress(
        stage=Phase.SCANNING,
        remaining=(Remaining(directory="/data", logs=31, segments=1),),
        devices=(
            DeviceUse(
                device=Device(1, "vda"),
                bytes_read=12_000_000_000,
                bytes_total=80_000_000_000,
                seconds=12.0,
                rate=1_000_000_000.0,
                readers=2,
                most_readers=2,
                busy=None,
            ),
        ),
    )

    assert progress_line(progress) == (
        "vda: 12.0 GB of 80.0 GB at 1.0 GB/s with 2 readers; 31 logs and 1 segment left; "
        "ready in about 1 min 8 s"
    )
