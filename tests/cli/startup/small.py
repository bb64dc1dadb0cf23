"""Options of `stratalog bench startup` for a directory that is measured quickly."""

from __future__ import annotations

SMALL = (
    "--partitions",
    "2",
    "--segments",
    "3",
    "--segment-bytes",
    "1MiB",
    "--batch-bytes",
    "4KiB",
    "--no-cold",
)
