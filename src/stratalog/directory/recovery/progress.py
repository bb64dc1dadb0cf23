"""The stages of a recovery in its progress events (`engine/progress.py`)."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """The current stage."""

    SURVEYING = "looking at the directories"
    SCANNING = "reading"
    FINISHING = "writing the checkpoints"
    DONE = "done"
