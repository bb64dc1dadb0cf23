"""Damage that a recovery reports and leaves."""

from __future__ import annotations

from stratalog.log.recovery.facts import FindingKind
from tests.log.recovery.directory import ONE, Directory


def test_damage_below_the_recovery_point_is_reported_when_all_is_scanned(orders: Directory) -> None:
    orders.flip(5, 2 * ONE - 1)
    before = orders.contents()

    plan = orders.recover(recovery_point=10, scan_all=True)

    assert orders.contents() == before
    (finding,) = plan.findings
    assert finding.kind is FindingKind.DAMAGE_BELOW_RECOVERY_POINT
    assert f"byte {ONE}" in finding.words
