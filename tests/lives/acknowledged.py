"""What a repeatedly killed writer has acknowledged, and whether its logs still have it.

The writer records every step in a journal: before it tries something, and after the call has returned. A line
counts once it is in the file, which a SIGKILL does not undo. After the kill another process opens the logs,
and `compare` compares them with the journal:

- an acknowledged record is at its offset, unchanged, once, and in the order in which its thread wrote it
- a missing one was removed on purpose: deleted, cut off, compacted away, aborted and then compacted
- only older records of a key are compacted away, so that no deleted key comes back
- a batch that was tried but not acknowledged is there as a whole or not at all
- a record that was missing once does not come back, and the start of the log does not go back
- a read_committed reader gets the committed records, and nothing else

The journal's lines, each a JSON list:

["try", topic, attempt, producer, sequence, transaction, size, [[identity, key, crc], ...]]
["end", topic, attempt, producer, transaction, "commit" or "abort"]
["ack", topic, attempt, first offset, last offset]
["cutting", topic, offset]     ["cut", topic, offset]      truncate_to
["deleting", topic, offset]    ["deleted", topic, offset]  delete_records
["opened"]    ["did", kind]    ["error", traceback]

A `crc` of None is a tombstone. Nothing here opens a file of a log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from tests.lives.known import Attempt, Found, LogState, Policy, Topic, Transaction, Written

Line = Sequence[Any]


class Acknowledged:
    """The model of all logs; `findings` are sentences on broken promises."""

    def __init__(self, policies: dict[str, Policy]) -> None:
        self.topics = {name: Topic(policy) for name, policy in policies.items()}
        self.transactions: dict[str, Transaction] = {}
        self.findings: list[str] = []
        self.counts: Counter[str] = Counter()

    # The journal

    def note(self, lines: Iterable[Line]) -> None:
        """Add the journal of a life."""
        for kind, *fields in lines:
            match kind:
                case "try":
                    self._try(*fields)
                case "end":
                    self._end(*fields)
                case "ack":
                    self._ack(*fields)
                case "cutting":
                    topic, offset = fields
                    self._retain(self.topics[topic])
                    self.topics[topic].cutting = offset
                case "cut":
                    self._cut(*fields)
                    self.counts["truncations"] += 1
                case "deleting":
                    topic, offset = fields
                    self.topics[topic].highest_start = max(self.topics[topic].highest_start, offset)
                case "deleted":
                    topic, offset = fields
                    self.topics[topic].start = max(self.topics[topic].start, offset)
                    self.counts["deletions"] += 1
                case "did":
                    self.counts[fields[0]] += 1
                case "error":
                    self.findings.append(f"the writer failed:\n{fields[0]}")
                case "opened":
                    pass
                case _:
                    raise AssertionError(f"a line that is not known: {kind}")

    def _try(
        self,
        topic: str,
        name: str,
        producer: int,
        sequence: int,
        transaction: str | None,
        size: int,
        records: Sequence[Sequence[Any]],
    ) -> None:
        known = self.topics[topic].trying.get(name)
        last = self.topics[topic].last.get(producer)
        if known is not None or (last is not None and last.name == name):
            self.counts["retries"] += 1
            return
        attempt = Attempt(
            name=name,
            topic=topic,
            producer=producer,
            sequence=sequence,
            transaction=transaction,
            size=size,
            records=[(identity, key, crc) for identity, key, crc in records],
        )
        self.topics[topic].trying[name] = attempt
        if producer >= 0:
            self.topics[topic].last[producer] = attempt
        if transaction is not None:
            self.transactions.setdefault(transaction, Transaction(topic, producer))

    def _end(self, topic: str, name: str, producer: int, transaction: str, decision: str) -> None:
        self.topics[topic].trying[name] = Attempt(
            name=name,
            topic=topic,
            producer=producer,
            sequence=-1,
            transaction=transaction,
            size=78,
            records=[(decision, None, None)],
            ends=decision,
        )
        self.transactions[transaction].decision = decision

    def _ack(self, topic: str, name: str, first: int, last: int) -> None:
        known = self.topics[topic]
        attempt = known.trying.pop(name, None)
        if attempt is None:
            (attempt,) = (each for each in known.last.values() if each.name == name)
            if attempt.first_offset != first:
                self._find(topic, f"{name} is at {attempt.first_offset}; sent again, it was put at {first}")
            return
        if last - first + 1 != len(attempt.records):
            self._find(topic, f"{name} has {len(attempt.records)} records, acknowledged as {first} to {last}")
        self.counts["acknowledged records"] += len(attempt.records)
        self._put(known, attempt, first)
        if attempt.ends is not None and attempt.transaction is not None:
            self.transactions[attempt.transaction].is_ended = True
            self.counts[f"transactions, {attempt.ends}"] += 1

    def _put(self, known: Topic, attempt: Attempt, first: int) -> None:
        attempt.first_offset = first
        for index in range(len(attempt.records)):
            other = known.written.get(first + index)
            if other is not None:
                self._find(
                    attempt.topic,
                    f"offset {first + index} was given to {attempt.name}, but {other.identity} has it",
                )
            known.written[first + index] = Written(attempt, index)

    def _give_up(self, known: Topic, name: str) -> None:
        """Records that are not in the log now, and must not come back."""
        attempt = known.trying.pop(name)
        if attempt.ends is None:
            known.gone.update(identity for identity, _, _ in attempt.records)
        if known.last.get(attempt.producer) is attempt:
            del known.last[attempt.producer]

    def _cut(self, topic: str, offset: int) -> None:
        known = self.topics[topic]
        known.cutting = None
        gone = {at: written for at, written in known.written.items() if at >= offset}
        newest = {written.key: at for at, written in sorted(gone.items())}
        for at, written in gone.items():
            del known.written[at]
            known.gone.add(written.identity)
            known.cut_off[written.identity] = at
        for written in known.written.values():
            written.may_go |= written.key in newest
        known.last = {
            producer: last
            for producer, last in known.last.items()
            if last.first_offset is None or last.first_offset < offset
        }
        known.start, known.highest_start = min(known.start, offset), min(known.highest_start, offset)

    def _retain(self, known: Topic) -> None:
        """How far retention may have moved the start: the rest has at least retention.bytes."""
        wanted = known.policy.retention_size
        if wanted is None:
            return
        size = sum(attempt.size for attempt in known.trying.values())
        for offset in sorted(known.written, reverse=True):
            size += known.written[offset].size
            if size >= wanted and known.written[offset].size:
                known.highest_start = max(known.highest_start, offset)
                return

    # A reader in another process

    def saw(self, topic: str, run: Sequence[Found]) -> None:
        """Add what a reader got in one run, in its order."""
        known = self.topics[topic]
        for found in run:
            self._saw_one(topic, known, found)
        self._find_newest(known)
        for one, two in pairwise(run):
            if two.offset <= one.offset:
                self._find(topic, f"a reader got offset {two.offset} after {one.offset}")
            elif not known.cut_off and known.cutting is None:
                for offset in range(one.offset + 1, two.offset):
                    written = known.written.get(offset)
                    if written is not None and not self._may_be_missing(known, offset, written):
                        self._find(topic, f"a reader got {one.offset} and {two.offset}, but not {offset}")
        self.counts["records seen by a reader"] += len(run)

    def _saw_one(self, topic: str, known: Topic, found: Found) -> None:
        written = known.written.get(found.offset)
        if written is not None and written.identity == found.identity:
            self._same(topic, found, written)
            return
        if known.cut_off.get(found.identity) == found.offset:
            return
        attempt = _attempt_of(known, found)
        if attempt is None:
            self._find(topic, f"a reader got {found.identity} at {found.offset}, which was never there")
            return
        # A record that was read counts as acknowledged: it must be there from now on.
        del known.trying[attempt.name]
        self._put(known, attempt, found.offset - _index_in(attempt, found))

    # What the next process finds

    def compare(self, topic: str, state: LogState) -> None:
        """Compare a log with what was acknowledged; from then on, everything found must stay."""
        known = self.topics[topic]
        self._retain(known)
        self._compare_order(topic, state)
        self._adopt(topic, known, state)
        self._find_newest(known)
        self._compare_start(topic, known, state)
        self._compare_missing(topic, known, state)
        if known.policy.is_compacted:
            self._compare_keys(topic, known, state)
        self._compare_committed(topic, known, state)
        self._take_over(known, state)

    def _compare_order(self, topic: str, state: LogState) -> None:
        offsets = [found.offset for found in state.records]
        if offsets != sorted(set(offsets)):
            self._find(topic, "offsets do not ascend")
        if offsets and not state.start <= offsets[0] <= offsets[-1] < state.end:
            self._find(topic, f"offsets {offsets[0]} to {offsets[-1]} in {state.start} to {state.end}")
        identities = [found.identity for found in state.records if "." in found.identity]
        for identity, count in Counter(identities).items():
            if count > 1:
                self._find(topic, f"{identity} is there {count} times")
        newest: dict[str, int] = {}
        for identity in identities:
            thread, number = identity.rsplit(".", 1)
            if int(number) < newest.get(thread, -1):
                self._find(topic, f"{identity} comes after {thread}.{newest[thread]}")
            newest[thread] = int(number)

    def _adopt(self, topic: str, known: Topic, state: LogState) -> None:
        """Every record was written there, or was being written."""
        for found in state.records:
            written = known.written.get(found.offset)
            if written is not None and written.identity == found.identity:
                self._same(topic, found, written)
                continue
            attempt = _attempt_of(known, found)
            if attempt is not None and written is None:
                del known.trying[attempt.name]
                self._put(known, attempt, found.offset - _index_in(attempt, found))
                self.counts["found, though not acknowledged"] += 1
            elif found.identity in known.gone:
                self._find(topic, f"{found.identity} is back, at {found.offset}")
            else:
                there = "nothing" if written is None else written.identity
                self._find(topic, f"{found.identity} is at {found.offset}, where {there} was written")

    def _same(self, topic: str, found: Found, written: Written) -> None:
        if (found.key, found.crc) != (written.key, written.crc):
            self._find(topic, f"{found.identity} at {found.offset} has another key or value than it had")
        if found.producer not in (written.attempt.producer, None):
            self._find(topic, f"{found.identity} at {found.offset} is producer {found.producer}'s")

    def _compare_start(self, topic: str, known: Topic, state: LogState) -> None:
        lowest = known.start if known.cutting is None else min(known.start, known.cutting)
        highest = max(known.highest_start, known.start)
        if not lowest <= state.start <= highest:
            self._find(topic, f"it starts at {state.start}; that is at least {lowest}, at most {highest}")

    def _compare_missing(self, topic: str, known: Topic, state: LogState) -> None:
        there = {found.offset for found in state.records}
        highest = max(known.highest_start, known.start)
        for offset, written in sorted(known.written.items()):
            if offset in there or offset < min(state.start, highest):
                continue
            if known.cutting is not None and offset >= known.cutting:
                behind = [at for at in there if at > offset]
                if behind and not self._may_be_missing(known, offset, written):
                    self._find(topic, f"{offset} was cut off, but {min(behind)} behind it was not")
            elif not self._may_be_missing(known, offset, written):
                self._find(topic, f"{written.identity} at {offset} is lost")

    def _may_be_missing(self, known: Topic, offset: int, written: Written) -> bool:
        """Whether compaction may have removed it."""
        if not known.policy.is_compacted:
            return False
        if written.attempt.ends is not None or written.crc is None or written.may_go:
            return True
        transaction = self._transaction_of(written)
        if transaction is not None and transaction.decision == "abort":
            return True
        return known.newest.get(written.key, -1) > offset

    def _find_newest(self, known: Topic) -> None:
        """The newest record of each key that the cleaner may have used."""
        known.newest.clear()
        for offset, written in known.written.items():
            if self._may_count(written):
                known.newest[written.key] = max(offset, known.newest.get(written.key, -1))

    def _compare_keys(self, topic: str, known: Topic, state: LogState) -> None:
        """The missing records of a key are all older than those that are there."""
        there = {found.offset for found in state.records}
        oldest: dict[str, int] = {}
        for offset in sorted(there):
            written = known.written.get(offset)
            if written is not None and written.key is not None and self._counts(written):
                oldest.setdefault(written.key, offset)
        for offset, written in sorted(known.written.items()):
            is_cut = known.cutting is not None and offset >= known.cutting
            if offset in there or is_cut or written.key not in oldest or not self._counts(written):
                continue
            if offset > oldest[written.key]:
                self._find(
                    topic,
                    f"{written.identity} at {offset} is compacted away, but {written.key} is still there at "
                    f"{oldest[written.key]}",
                )

    def _compare_committed(self, topic: str, known: Topic, state: LogState) -> None:
        committed = set(state.committed)
        undecided = [
            transaction
            for transaction in self.transactions.values()
            if transaction.topic == topic and not transaction.is_ended
        ]
        if not undecided and state.stable != state.end:
            self._find(topic, f"it is stable up to {state.stable}, not to its end {state.end}")
        for found in state.records:
            written = known.written.get(found.offset)
            if written is None or written.attempt.ends is not None:
                continue
            transaction = self._transaction_of(written)
            if transaction is not None and transaction.decision is None and found.offset < state.stable:
                self._find(topic, f"{found.offset} is open, but stable")
            if transaction is not None and not transaction.is_ended and transaction.decision is not None:
                continue  # its marker may be there, or not
            is_visible = self._counts(written) and found.offset < state.stable
            if is_visible != (found.offset in committed):
                is_there = "cannot be read" if is_visible else "can be read"
                self._find(topic, f"{found.identity} at {found.offset} {is_there} as committed")

    def _take_over(self, known: Topic, state: LogState) -> None:
        there = {found.offset for found in state.records}
        for offset in [at for at in known.written if at not in there]:
            known.gone.add(known.written.pop(offset).identity)
        for name, attempt in [*known.trying.items()]:
            if attempt.producer < 0 or attempt.ends is not None:
                self._give_up(known, name)
        known.last = {
            producer: last
            for producer, last in known.last.items()
            if last.name in known.trying or last.first_offset in known.written
        }
        known.start = known.highest_start = state.start
        known.cutting = None
        known.cut_off.clear()

    # Helpers

    def _transaction_of(self, written: Written) -> Transaction | None:
        name = written.attempt.transaction
        return None if name is None else self.transactions[name]

    def _counts(self, written: Written) -> bool:
        """Whether the record is not aborted and never will be."""
        transaction = self._transaction_of(written)
        if written.attempt.ends is not None:
            return False
        return transaction is None or (transaction.is_ended and transaction.decision == "commit")

    def _may_count(self, written: Written) -> bool:
        """Whether its marker may be there, and the cleaner may have used it."""
        transaction = self._transaction_of(written)
        return written.attempt.ends is None and (transaction is None or transaction.decision == "commit")

    def _find(self, topic: str, words: str) -> None:
        self.findings.append(f"{topic}: {words}.")


def _attempt_of(known: Topic, found: Found) -> Attempt | None:
    """The current attempt that contains this record."""
    for attempt in known.trying.values():
        identities = [identity for identity, _, _ in attempt.records]
        if found.producer in (attempt.producer, None) and found.identity in identities:
            return attempt
    return None


def _index_in(attempt: Attempt, found: Found) -> int:
    return [identity for identity, _, _ in attempt.records].index(found.identity)
