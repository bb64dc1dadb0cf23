"""Damage of every kind, planted in a broker's directory, and what an audit calls it.

The damages go into a copy of a directory that Kafka 4.3.1 left after a clean shutdown. They are written with
`struct` and `crc32c`, and none of our own writers is used: a reader and a writer cannot be wrong together.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

CRC_AT, ATTRIBUTES_AT = 17, 21
EPOCH_AT, MAGIC_AT, DELTA_AT, MAX_TIMESTAMP_AT, COUNT_AT, RECORDS_AT = 12, 16, 23, 35, 57, 61
ROLLED = "rolled-0/00000000000000000020.log"
ROLLED_LAST = "rolled-0/00000000000000000072.log"
INDEX = "rolled-0/00000000000000000020.index"
TIME_INDEX = "rolled-0/00000000000000000020.timeindex"
INDEX_OF_LAST = "rolled-0/00000000000000000072.index"
TIME_INDEX_OF_LAST = "rolled-0/00000000000000000072.timeindex"
TXN_INDEX = "txn-0/00000000000000000006.txnindex"
SNAPSHOT = "idempotent-0/00000000000000000062.snapshot"


@dataclass(frozen=True)
class PlantedDamage:
    """One damage, the kind that must be found, and where; without partition and file, anywhere."""

    name: str
    plant: Callable[[Path], object]
    kind: str
    partition: str
    file: str
    deep: bool = False


def batches(data: bytes) -> Iterator[tuple[int, int]]:
    """(position, size) of each batch."""
    position = 0
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position + 8)
        yield position, length + 12
        position += length + 12


def edit(path: Path, change: Callable[[bytearray], object]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def put(path: Path, position: int, layout: str, *values: int) -> None:
    edit(path, lambda data: struct.pack_into(layout, data, position, *values))


def in_batch(number: int, at: int, layout: str, *values: int, sums: bool = True) -> Callable[[Path], None]:
    """Change a field of a batch's header, and by default give it a right checksum again."""

    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        position, size = [*batches(bytes(data))][number]
        struct.pack_into(layout, data, position + at, *values)
        if sums:
            body = bytes(data[position + ATTRIBUTES_AT : position + size])
            struct.pack_into(">I", data, position + CRC_AT, crc32c(body))
        path.write_bytes(data)

    return change


def flip(path: Path, position: int) -> None:
    edit(path, lambda data: data.__setitem__(position, data[position] ^ 0x40))


def cut(size: int) -> Callable[[Path], None]:
    """Keep only the first bytes of a file."""
    return lambda path: edit(path, lambda data: data.__delitem__(slice(size, None)))


def split(path: str) -> tuple[str, str]:
    """The partition and the file's name."""
    partition, _, name = path.partition("/")
    return partition, name


def of(name: str, change: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda root: change(root / name)


def without(name: str) -> Callable[[Path], object]:
    return lambda root: (root / name).unlink()


def write(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda root: (root / name).write_bytes(data)


def _without_batch(path: Path) -> None:
    """Take one batch out of the middle of a log, as a lost write would."""
    data = path.read_bytes()
    position, size = [*batches(data)][1]
    path.write_bytes(data[:position] + data[position + size :])
    for suffix in (".index", ".timeindex"):
        path.with_suffix(suffix).write_bytes(b"")


def _replay_batch(path: Path) -> None:
    """Append a batch of the log to its end once more."""
    data = path.read_bytes()
    position, size = next(batches(data))
    path.write_bytes(data + data[position : position + size])


def _garbled_record(path: Path) -> None:
    """The first record claims to be longer than its batch; the checksum is right."""
    in_batch(0, RECORDS_AT, ">B", 0x7E)(path)


def _checkpoint_line(name: str, line: str, to: str) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        path = root / name
        text = path.read_text()
        assert line in text
        path.write_text(text.replace(line, to))

    return change


def _drop_abort(path: Path) -> None:
    """Take the first entry out of a .txnindex."""
    edit(path, lambda data: data.__delitem__(slice(0, 34)))


def _first_producer(path: Path, at: int, layout: str, value: int) -> None:
    """Change a field of the first producer in a snapshot, with a right checksum."""
    data = bytearray(path.read_bytes())
    struct.pack_into(layout, data, 10 + at, value)
    struct.pack_into(">I", data, 2, crc32c(bytes(data[6:])))
    path.write_bytes(data)


def _stray(root: Path) -> None:
    (root / "gone-0.16d0e42cb57747578f152795418c656f-stray").mkdir()


def _twice(root: Path) -> None:
    (root / "rolled-00").mkdir()
    (root / "rolled-00" / "00000000000000000000.log").write_bytes(b"")


def _unknown_topic(root: Path) -> None:
    (root / "nobodys-0").mkdir()
    (root / "nobodys-0" / "00000000000000000000.log").write_bytes(b"")
    (root / "nobodys-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")


_DAMAGES = [
    ("a flipped bit in a batch", of(ROLLED, lambda path: flip(path, 100)), "wrong-crc"),
    ("a flipped bit in the last batch", of(ROLLED, lambda path: flip(path, 1384)), "wrong-crc"),
    ("a wrong magic", of(ROLLED, in_batch(1, MAGIC_AT, ">b", 7, sums=False)), "bad-magic"),
    ("a length of zero", of(ROLLED, in_batch(1, 8, ">i", 0, sums=False)), "bad-length"),
    ("a negative length", of(ROLLED, in_batch(1, 8, ">i", -5, sums=False)), "bad-length"),
    ("a length past the end", of(ROLLED, in_batch(1, 8, ">i", 1 << 30, sums=False)), "bad-length"),
    ("an older segment that is cut", of(ROLLED, cut(1300)), "bad-length"),
    ("a torn end", of(ROLLED_LAST, cut(600)), "torn-tail"),
    ("zeros at the end", of(ROLLED_LAST, lambda path: edit(path, lambda d: d.extend(bytes(500)))), "zeros"),
    (
        "a hole of zeros",
        of(ROLLED, lambda path: edit(path, lambda d: d.__setitem__(slice(400, 700), bytes(300)))),
        "bad-length",
    ),
    ("more records than offsets", of(ROLLED, in_batch(0, COUNT_AT, ">i", 100)), "records-count"),
    ("a negative count of records", of(ROLLED, in_batch(0, COUNT_AT, ">i", -1)), "records-count"),
    ("offsets below the segment", of(ROLLED, in_batch(0, 0, ">q", 3, sums=False)), "offset-outside"),
    ("offsets of the next segment", of(ROLLED, in_batch(-1, 0, ">q", 60, sums=False)), "offset-outside"),
    ("a batch that comes again", of(ROLLED_LAST, _replay_batch), "offset-backwards"),
    (
        "an offset far from the base",
        of(ROLLED_LAST, in_batch(-1, 0, ">q", 72 + (1 << 31), sums=False)),
        "offset-overflow",
    ),
    ("a batch that is missing", of(ROLLED, _without_batch), "lost-offsets"),
    (
        "a leader epoch that goes back",
        of("idempotent-0/00000000000000000040.log", in_batch(-1, EPOCH_AT, ">i", 0, sums=False)),
        "epoch-backwards",
    ),
    (
        "a timestamp in microseconds",
        of(ROLLED_LAST, in_batch(0, MAX_TIMESTAMP_AT, ">q", 1_700_000_000_000_000)),
        "future-timestamp",
    ),
]
_MORE = [
    ("an offset index that is gone", without(INDEX), "missing-index", *split(INDEX)),
    (
        "an index of half an entry",
        of(INDEX, lambda p: edit(p, lambda d: d.extend(b"abc"))),
        "unreadable-index",
        *split(INDEX),
    ),
    (
        "index offsets that descend",
        of(INDEX, lambda p: put(p, 8, ">i", 0)),
        "unreadable-index",
        *split(INDEX),
    ),
    ("an index entry into a batch", of(INDEX, lambda p: flip(p, 7)), "index-entry", *split(INDEX)),
    ("an index entry of no batch", of(INDEX, lambda p: put(p, 0, ">i", 6)), "index-entry", *split(INDEX)),
    (
        "an index entry past the end",
        of(INDEX, lambda p: put(p, 12, ">i", 50_000)),
        "index-entry",
        *split(INDEX),
    ),
    (
        "an index entry of records that are gone",
        of(INDEX_OF_LAST, lambda p: edit(p, lambda d: d.extend(struct.pack(">ii", 20, 50_000)))),
        "index-past-end",
        *split(INDEX_OF_LAST),
    ),
    ("a time index that is gone", without(TIME_INDEX), "missing-time-index", *split(TIME_INDEX)),
    (
        "times that descend",
        of(TIME_INDEX, lambda p: put(p, 12, ">q", 5)),
        "unreadable-time-index",
        *split(TIME_INDEX),
    ),
    (
        "a time that is too early",
        of(TIME_INDEX, lambda p: put(p, 0, ">q", 5)),
        "time-index-entry",
        *split(TIME_INDEX),
    ),
    ("a time index without its end", of(TIME_INDEX, cut(12)), "time-index-end", *split(TIME_INDEX)),
    (
        "a time of records that are gone",
        of(TIME_INDEX_OF_LAST, lambda p: edit(p, lambda d: d.extend(struct.pack(">qi", 1 << 41, 20)))),
        "time-index-past-end",
        *split(TIME_INDEX_OF_LAST),
    ),
    ("an abort that is not indexed", of(TXN_INDEX, _drop_abort), "missing-abort", *split(TXN_INDEX)),
    (
        "an abort of another producer",
        of(TXN_INDEX, lambda p: put(p, 2, ">q", 77)),
        "txn-index-entry",
        *split(TXN_INDEX),
    ),
    (
        "an abort that begins too late",
        of(
            TXN_INDEX,
            lambda p: edit(p, lambda d: struct.pack_into(">q", d, 10, *struct.unpack_from(">q", d, 18))),
        ),
        "txn-index-entry",
        *split(TXN_INDEX),
    ),
    (
        "an unknown version of aborts",
        of(TXN_INDEX, lambda p: put(p, 0, ">h", 0x500)),
        "unreadable-txn-index",
        *split(TXN_INDEX),
    ),
    (
        "a torn entry of an abort",
        of(TXN_INDEX, lambda p: edit(p, lambda d: d.__delitem__(slice(-10, None)))),
        "torn-txn-index",
        *split(TXN_INDEX),
    ),
    (
        "an index without a log",
        write("rolled-0/00000000000000000099.index", b""),
        "orphan-index",
        "rolled-0",
        "00000000000000000099.index",
    ),
    ("a torn snapshot", of(SNAPSHOT, cut(40)), "unreadable-snapshot", *split(SNAPSHOT)),
    (
        "a snapshot with a wrong checksum",
        of(SNAPSHOT, lambda p: flip(p, 30)),
        "unreadable-snapshot",
        *split(SNAPSHOT),
    ),
    (
        "a snapshot of another sequence",
        of(SNAPSHOT, lambda p: _first_producer(p, 10, ">i", 9999)),
        "wrong-snapshot",
        *split(SNAPSHOT),
    ),
    (
        "a leader epoch that is not in its file",
        write("idempotent-0/leader-epoch-checkpoint", b"0\n1\n0 0\n"),
        "wrong-leader-epoch",
        "idempotent-0",
        "leader-epoch-checkpoint",
    ),
    (
        "garbled leader epochs",
        write("rolled-0/leader-epoch-checkpoint", bytes(8)),
        "will-not-start",
        "rolled-0",
        "leader-epoch-checkpoint",
    ),
    (
        "garbled partition.metadata",
        write("rolled-0/partition.metadata", b"x"),
        "will-not-start",
        "rolled-0",
        "partition.metadata",
    ),
    (
        "the id of another topic",
        write("rolled-0/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"),
        "wrong-topic-id",
        "rolled-0",
        "partition.metadata",
    ),
    (
        "partition.metadata that is missing",
        lambda root: (root / "rolled-0/partition.metadata").unlink(),
        "missing-topic-id",
        "rolled-0",
        "partition.metadata",
    ),
    ("a topic that the cluster does not know", _unknown_topic, "unknown-partition", "nobodys-0", ""),
    (
        "a garbled checkpoint",
        write("replication-offset-checkpoint", bytes(30)),
        "unreadable-checkpoint",
        "",
        "replication-offset-checkpoint",
    ),
    (
        "a start past the end",
        _checkpoint_line("log-start-offset-checkpoint", "trimmed 0 17", "trimmed 0 999"),
        "start-past-end",
        "trimmed-0",
        "",
    ),
    (
        "a recovery point past the end",
        _checkpoint_line("recovery-point-offset-checkpoint", "rolled 0 80", "rolled 0 999"),
        "checkpoint-past-end",
        "rolled-0",
        "recovery-point-offset-checkpoint",
    ),
    (
        "a high watermark past the end",
        _checkpoint_line("replication-offset-checkpoint", "rolled 0 80", "rolled 0 999"),
        "checkpoint-past-end",
        "rolled-0",
        "replication-offset-checkpoint",
    ),
    (
        "a folder of something else",
        lambda root: (root / "lost+found").mkdir(),
        "will-not-start",
        "",
        "lost+found",
    ),
    ("meta.properties is gone", without("meta.properties"), "will-not-start", "", "meta.properties"),
    ("a partition that was set aside", _stray, "stray", "", "gone-0.16d0e42cb57747578f152795418c656f-stray"),
    ("a partition twice", _twice, "will-not-start", "", "rolled-00"),
    ("a file that is not Kafka's", write("rolled-0/README", b"hello"), "foreign-file", "rolled-0", "README"),
    (
        "what the cleaner left",
        write("rolled-0/00000000000000000020.log.cleaned", b""),
        "temporary-file",
        "rolled-0",
        "00000000000000000020.log.cleaned",
    ),
]
DEEP = PlantedDamage(
    "a record longer than its batch",
    of(ROLLED, _garbled_record),
    "invalid-records",
    "rolled-0",
    "00000000000000000020.log",
    deep=True,
)

DAMAGES = [
    *(PlantedDamage(name, plant, kind, "", "") for name, plant, kind in _DAMAGES),
    *(PlantedDamage(*fields) for fields in _MORE),
    DEEP,
]
