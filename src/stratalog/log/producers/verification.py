"""Guards against transactions that never end: a write is accepted only if its transaction was verified
before.

Off by default (`ProducerStateManager(verify_transactions=...)`): only a transaction coordinator can verify,
and a log without a cluster does not have one. The setting `transaction.partition.verification.enable` has no
effect. Kafka: VerificationGuard, VerificationStateEntry
"""

from __future__ import annotations


class VerificationGuard:
    """Identifies one verification: no two are equal, and NO_GUARD verifies nothing."""

    __slots__ = ()

    def verifies(self, other: VerificationGuard) -> bool:
        return self is other and self is not NO_GUARD


NO_GUARD = VerificationGuard()


class VerificationEntry:
    """A verification of one producer that has not ended.

    It keeps the lowest sequence number of the batches that wait for it. If a later batch were accepted first,
    the earlier one could never follow, and its producer would retry until it gives up.
    """

    __slots__ = ("epoch", "guard", "lowest_sequence", "supports_epoch_bump", "timestamp")

    def __init__(self, timestamp: int, sequence: int, epoch: int, *, supports_epoch_bump: bool) -> None:
        self.timestamp = timestamp
        self.guard = VerificationGuard()
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump

    def see(self, sequence: int, epoch: int) -> None:
        """Record a batch that waits for this verification."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
