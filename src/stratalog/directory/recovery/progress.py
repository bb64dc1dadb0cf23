"""The stages of a recovery, as its progress tells of them (`engine/progress.py`)."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """What is being done."""

    SURVEYING = "looking at the directories"
    SCANNING = "reading"
    FINISHING = "writing the checkpoints"
    DONE = "done"
