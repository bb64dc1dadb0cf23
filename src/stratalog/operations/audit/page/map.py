"""`AuditMap`: what the page of a report shows in addition to the findings."""

from __future__ import annotations

from dataclasses import dataclass

from stratalog.operations.audit.page.regions import DamagedRegion
from stratalog.operations.audit.page.strips import PartitionStrip


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditMap:
    """The audited directories, a strip for each partition, and the bytes of the damaged regions."""

    directories: tuple[str, ...]
    strips: tuple[PartitionStrip, ...]
    regions: tuple[DamagedRegion, ...]
