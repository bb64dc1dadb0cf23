"""Options of `stratalog bench startup` for a directory that is measured quickly, without a broker."""

from __future__ import annotations

SMALL = (
    *("--partitions", "2", "--segments", "3", "--segment-bytes", "1MiB", "--batch-bytes", "4KiB"),
    *("--many-segments", "10", "--rounds", "2", "--no-cold", "--no-kafka"),
)
