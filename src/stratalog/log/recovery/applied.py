"""What a plan has done so far, for the report of a partition that fails halfway."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stratalog.log.recovery.manifest import ManifestEntry
    from stratalog.log.recovery.steps import Keeping


@dataclass(slots=True)
class Applied:
    """What went into quarantine, by step, and the live names of the logs that have lost bytes.

    It is correct even after a step has failed.
    """

    kept: list[tuple[Keeping, ManifestEntry]] = field(default_factory=list)
    shortened: set[str] = field(default_factory=set)
