"""Changes to a broker's clean directory that keep a broker from starting with it, and some that do not.

Found by starting Kafka 4.3.1 on each (tests/kafka/test_startup_refusals.py does it again).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from stratalog.directory.refusal import RefusalKind, StartupRefusal
from stratalog.directory.startup_refusals import startup_refusals
from stratalog.files.disk import Disk

META = "meta.properties"
ID = "rolled-0/partition.metadata"
ACTIVE = "rolled-0/00000000000000000072.log"
EPOCHS = "rolled-0/leader-epoch-checkpoint"
WAITING = "short-lived-0.16d0e42cb57747578f152795418c656f-delete"
OTHER_ID = "reGNe0_MHPkN7msm8w9sjg"  # of another broker's directory
METADATA = "__cluster_metadata-0"
METADATA_LOG = f"{METADATA}/00000000000000000000.log"
SNAPSHOT = f"{METADATA}/00000000000000000050-0000000001.checkpoint"
QUORUM_STATE = f"{METADATA}/quorum-state"
TXN_INDEX = "rolled-0/00000000000000000020.txnindex"
MARKER = ".kafka_cleanshutdown"
# As the broker wrote it, and as later releases do.
VOTED = (
    '{"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
    '"currentVoters":[{"voterId":1}],"data_version":0}'
)
VOTED_1 = (
    '{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
)
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
Make = Callable[[Path], object]


class Change(NamedTuple):
    """A change to the directory, and what must be reported about it."""

    kind: RefusalKind
    name: str
    make: Make
    takes_offline: bool = False


def write(name: str, data: bytes) -> Make:
    return lambda directory: (directory / name).write_bytes(data)


def edit(name: str, old: str, new: str) -> Make:
    def make(directory: Path) -> None:
        text = (directory / name).read_text()
        assert re.search(old, text)
        (directory / name).write_text(re.sub(old, new, text))

    return make


def folder(name: str) -> Make:
    def make(directory: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        (directory / name).mkdir()

    return make


def file_instead(name: str) -> Make:
    """An empty file in the place of a folder."""

    def make(directory: Path) -> None:
        shutil.rmtree(directory / name)
        (directory / name).write_bytes(b"")

    return make


def link_instead(name: str) -> Make:
    """A link that leads nowhere in the place of a folder, as to a disk that is not mounted."""

    def make(directory: Path) -> None:
        if (directory / name).exists():
            shutil.rmtree(directory / name)
        (directory / name).symlink_to("/nonexistent/disk/x")

    return make


def copy(name: str, target: str) -> Make:
    return lambda directory: shutil.copytree(directory / name, directory / target)


def remove(name: str) -> Make:
    return lambda directory: (directory / name).unlink()


def flip(name: str, at: int) -> Make:
    def make(directory: Path) -> None:
        data = bytearray((directory / name).read_bytes())
        data[at] ^= 0xFF
        (directory / name).write_bytes(data)

    return make


def cut(name: str, size: int) -> Make:
    return lambda directory: os.truncate(directory / name, size)


def in_order(*makes: Make) -> Make:
    return lambda directory: [make(directory) for make in makes]


def last_batch(at: int, data: bytes) -> Make:
    """Overwrite the last batch of a log, from one of its bytes on."""

    def make(directory: Path) -> None:
        log = bytearray((directory / ACTIVE).read_bytes())
        position = following = 0
        while following < len(log):
            position, following = (
                following,
                following + 12 + int.from_bytes(log[following + 8 : following + 12]),
            )
        log[position + at : position + at + len(data)] = data
        (directory / ACTIVE).write_bytes(log)

    return make


def _meta(make: Make) -> Change:
    return Change(RefusalKind.META_PROPERTIES, META, make)


def _topic_id(data: bytes, name: str = ID) -> Change:
    return Change(RefusalKind.PARTITION_METADATA, name, write(name, data))


def _name(name: str) -> Change:
    return Change(RefusalKind.FILE_NAME, name, write(name, b""))


REFUSED: dict[str, Change] = {
    "meta.properties missing": _meta(remove(META)),
    "meta.properties empty": _meta(write(META, b"")),
    "meta.properties zeroed": _meta(write(META, bytes(80))),
    "meta.properties of another version": _meta(edit(META, "version=1", "version=2")),
    "meta.properties without a node": _meta(edit(META, "node.id=.*\n", "")),
    "meta.properties without a cluster": _meta(edit(META, "cluster.id=.*\n", "")),
    "meta.properties with a word for a node": _meta(edit(META, "node.id=1", "node.id=one")),
    "meta.properties with a reserved id": _meta(edit(META, "y.id=.*\n", "y.id=AAAAAAAAAAAAAAAAAAAAAA\n")),
    "meta.properties with half an id": _meta(edit(META, "y.id=.*\n", "y.id=x\n")),
    "lost+found": Change(RefusalKind.FOLDER, "lost+found", folder("lost+found")),
    "a folder without a number": Change(RefusalKind.FOLDER, "foo-x", folder("foo-x")),
    "a snapshot folder of the storage": Change(RefusalKind.FOLDER, ".snapshot", folder(".snapshot")),
    "a partition twice": Change(RefusalKind.TWICE, "rolled-00", copy("rolled-0", "rolled-00")),
    **{
        f"{name} {how}": Change(RefusalKind.CHECKPOINT, name, write(name, data), takes_offline=True)
        for name in CHECKPOINTS
        for how, data in (
            ("zeroed", bytes(8)),
            ("of another version", b"1\n0\n"),
            ("short", b"0\n5\nt 0 1\n"),
        )
    },
    "partition.metadata empty": _topic_id(b""),
    "partition.metadata zeroed": _topic_id(bytes(43)),
    "partition.metadata of noise": _topic_id(b"\xff\xfe\0noise"),
    "partition.metadata torn": _topic_id(b"version: 0\ntopi"),
    "partition.metadata with an id of zeros": _topic_id(b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"),
    "partition.metadata with half an id": _topic_id(b"version: 0\ntopic_id: abc"),
    "partition.metadata of what waits to be deleted": _topic_id(b"", f"{WAITING}/partition.metadata"),
    "partition.metadata of the cluster's metadata": _topic_id(b"", "__cluster_metadata-0/partition.metadata"),
    "partition.metadata is a folder": Change(RefusalKind.UNREADABLE, ID, folder(ID), takes_offline=True),
    "leader epochs zeroed": Change(
        RefusalKind.LEADER_EPOCHS, EPOCHS, write(EPOCHS, bytes(8)), takes_offline=True
    ),
    "leader epochs in words": Change(RefusalKind.LEADER_EPOCHS, EPOCHS, write(EPOCHS, b"0\n1\na b\n")),
    **{
        f"a file {name}": _name(f"rolled-0/{name}")
        for name in (
            "foo.log",
            "foo.index",
            "foo.timeindex",
            "foo.txnindex",
            "foo.snapshot",
            "foo.swap",
            "foo.log.cleaned",
            ".log",
            "99999999999999999999.log",
        )
    },
    "a file foo.log in what waits to be deleted": _name(f"{WAITING}/foo.log"),
    "a file foo.log in the cluster's metadata": _name("__cluster_metadata-0/foo.log"),
    "meta.properties of version 0 without broker.id": _meta(edit(META, "version=1", "version=0")),
    **{
        f"bootstrap.checkpoint {how}": Change(
            RefusalKind.BOOTSTRAP, "bootstrap.checkpoint", write("bootstrap.checkpoint", data)
        )
        for how, data in (("empty", b""), ("zeroed", bytes(100)), ("of noise", b"noise " * 20))
    },
    "the last batch zeroed": Change(RefusalKind.LOG_END, ACTIVE, last_batch(0, bytes(200))),
    "the length of the last batch 5": Change(RefusalKind.LOG_END, ACTIVE, last_batch(8, b"\0\0\0\5")),
    "quorum-state empty": Change(
        RefusalKind.QUORUM_STATE,
        "__cluster_metadata-0/quorum-state",
        write("__cluster_metadata-0/quorum-state", b""),
    ),
    "quorum-state.tmp that is a folder": Change(
        RefusalKind.FOLDER,
        f"{QUORUM_STATE}.tmp",
        in_order(folder(f"{QUORUM_STATE}.tmp"), write(f"{QUORUM_STATE}.tmp/x", b"")),
    ),
    "a partition that is a file": Change(
        RefusalKind.FILE, "rolled-0", file_instead("rolled-0"), takes_offline=True
    ),
    "a partition that is a link to nowhere": Change(
        RefusalKind.FILE, "rolled-0", link_instead("rolled-0"), takes_offline=True
    ),
    "metadata that is a link to nowhere": Change(
        RefusalKind.METADATA_PLACE, METADATA, link_instead(METADATA)
    ),
    "quorum-state zeroed": Change(
        RefusalKind.QUORUM_STATE,
        "__cluster_metadata-0/quorum-state",
        write("__cluster_metadata-0/quorum-state", bytes(20)),
    ),
}
REFUSED |= {
    f"a snapshot of the cluster's metadata {how}": Change(RefusalKind.METADATA_SNAPSHOT, SNAPSHOT, make)
    for how, make in {
        "empty": write(SNAPSHOT, b""),
        "zeroed": write(SNAPSHOT, bytes(500)),
        "of noise": write(SNAPSHOT, b"noise " * 99),
        "with a flipped byte": flip(SNAPSHOT, 800),
        "cut": cut(SNAPSHOT, 1500),
        "that is a folder": folder(SNAPSHOT),
    }.items()
}
REFUSED |= {
    f"quorum-state {how}": Change(RefusalKind.QUORUM_STATE, QUORUM_STATE, write(QUORUM_STATE, text.encode()))
    for how, text in {
        "without anything": "{}",
        "that is a list": "[]",
        "of version 2": VOTED.replace('"data_version":0', '"data_version":2'),
        "without a version": VOTED.replace(',"data_version":0', ""),
        "with a word for an epoch": VOTED.replace('"leaderEpoch":3', '"leaderEpoch":"three"'),
    }.items()
}
REFUSED |= {
    "leader epochs below zero": Change(RefusalKind.LEADER_EPOCHS, EPOCHS, write(EPOCHS, b"0\n1\n-1 0\n")),
    "leader epochs at an offset below zero": Change(
        RefusalKind.LEADER_EPOCHS, EPOCHS, write(EPOCHS, b"0\n1\n1 -4\n")
    ),
    "partition.metadata of the cluster's metadata with another id": Change(
        RefusalKind.PARTITION_METADATA,
        f"{METADATA}/partition.metadata",
        write(f"{METADATA}/partition.metadata", f"version: 0\ntopic_id: {OTHER_ID}".encode()),
    ),
    "a clean-shutdown file that is a folder with files": Change(
        RefusalKind.FOLDER, MARKER, in_order(folder(MARKER), write(f"{MARKER}/x", b"")), takes_offline=True
    ),
    "bootstrap.checkpoint cut": Change(
        RefusalKind.BOOTSTRAP, "bootstrap.checkpoint", cut("bootstrap.checkpoint", 200)
    ),
}
REFUSED |= {
    f"a folder {name}": Change(RefusalKind.FOLDER, name, folder(name), takes_offline=True)
    for name in (
        "rolled-0/00000000000000000072.index",
        "rolled-0/00000000000000000072.timeindex",
        "rolled-0/00000000000000000020.txnindex",
        "rolled-0/00000000000000000080.snapshot",
        "rolled-0/leader-epoch-checkpoint.tmp",
        "logappend-0/00000000000000000000.log",
        "__cluster_metadata-0/00000000000000000000.index",
    )
}
REFUSED["an index of transactions of a later version"] = Change(
    RefusalKind.TXN_INDEX, TXN_INDEX, write(TXN_INDEX, b"\1" * 50)
)
ACCEPTED: dict[str, Make] = {
    **{
        f"a folder {name}": folder(name)
        for name in (
            "rolled-0/00000000000000000020.index",
            "rolled-0/00000000000000000020.timeindex",
            "rolled-0/00000000000000000020.log",
        )
    },
    "an index of transactions that is torn": write(TXN_INDEX, b"\1" * 33),
    "an index of transactions with a marker of another segment": write(TXN_INDEX, bytes(34) + b"\1" * 34),
    "no snapshot of the cluster's metadata": remove(SNAPSHOT),
    "quorum-state missing": remove(QUORUM_STATE),
    "quorum-state.tmp that is an empty folder": folder(f"{QUORUM_STATE}.tmp"),
    "a file with the name of a partition that the cluster lacks": write("ghost-0", b""),
    **{
        f"a link to nowhere named {name}": link_instead(name)
        for name in ("ghost-0", "lost+found", f"rolled-0.{WAITING.split('.')[1][:32]}-future")
    },
    "quorum-state with more lines": write(QUORUM_STATE, f"{VOTED}\n\0\0".encode()),
    "quorum-state of version 1": write(QUORUM_STATE, VOTED_1.encode()),
    "a clean-shutdown file that is an empty folder": folder(MARKER),
    "a checkpoint of a negative number of entries": write("recovery-point-offset-checkpoint", b"0\n-1\n"),
    "bootstrap.checkpoint with a flipped byte": flip("bootstrap.checkpoint", 200),
    "no partition.metadata of the cluster's metadata": remove(f"{METADATA}/partition.metadata"),
    "meta.properties of version 0": edit(META, "node.id=1((?s:.*))version=1", r"broker.id=1\1version=0"),
    "bootstrap.checkpoint missing": remove("bootstrap.checkpoint"),
    "the magic of the last batch 9": last_batch(16, b"\x09"),
    "the length of the last batch 1000000": last_batch(8, (1_000_000).to_bytes(4, "big")),
    "a file of any name": write("README", b"x"),
    "a partition without anything": folder("bar-0"),
    **{f"{name} with a word for a number": write(name, b"0\n1\nrolled 0 many\n") for name in CHECKPOINTS[:3]},
    "partition.metadata missing": remove(ID),
    "partition.metadata of a later version": edit(ID, "version: 0", "version: 1"),
    "partition.metadata of an unknown topic": write(ID, f"version: 0\ntopic_id: {OTHER_ID}".encode()),
    "partition.metadata with a line end": edit(ID, "$", "\n"),
    **{
        f"a file {name}": write(f"rolled-0/{name}", b"")
        for name in ("foo.deleted", "foo.log.deleted", "1.log", "-5.log", "foo", "0.log.bak")
    },
    "a folder foo.log": folder("rolled-0/foo.log"),
}


def with_second(first: Path) -> Path:
    """Move one partition to a second directory of the same node, beside the first; returns the second."""
    second = first.with_name("second")
    second.mkdir()
    (first / "rolled-0").rename(second / "rolled-0")
    text = (first / META).read_text()
    (second / META).write_text(re.sub("directory.id=.*\n", f"directory.id={OTHER_ID}\n", text))
    shutil.copy(first / ".kafka_cleanshutdown", second)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        lines = [line for line in (first / name).read_text().splitlines() if not line.startswith("rolled ")]
        (first / name).write_text("\n".join([lines[0], str(len(lines) - 2), *lines[2:], ""]))
    return second


NOBODY = 65534


class Owned(NamedTuple):
    """A file or folder that root owns, with this mode, in a directory of the user nobody."""

    name: str
    mode: int
    is_refused: bool = True

    def make(self, directory: Path) -> None:
        path = directory / self.name
        if not path.exists():
            path.write_bytes(b"")
        os.chown(path, 0, 0)
        path.chmod(self.mode)


OUT_OF_REACH: dict[str, Owned] = {
    f"{place.name} {place.mode:o}": place
    for place in (
        Owned("rolled-0/00000000000000000000.log", 0o644),
        Owned("rolled-0/00000000000000000000.index", 0o644, is_refused=False),
        Owned("rolled-0/00000000000000000000.index", 0o600),
        Owned("rolled-0/00000000000000000072.index", 0o644),
        Owned("rolled-0/00000000000000000072.timeindex", 0o644),
        Owned("rolled-0/00000000000000000080.snapshot", 0o600),
        Owned(ID, 0o600),
        Owned(ID, 0o644, is_refused=False),
        Owned(EPOCHS, 0o600),
        Owned(EPOCHS, 0o644, is_refused=False),
        Owned("rolled-0/README", 0o600),
        Owned("README", 0o600, is_refused=False),
        Owned("recovery-point-offset-checkpoint", 0o600),
        Owned("recovery-point-offset-checkpoint", 0o644, is_refused=False),
        Owned("cleaner-offset-checkpoint", 0o600),
        Owned(META, 0o600),
        Owned(META, 0o644, is_refused=False),
        Owned(".lock", 0o644),
        Owned("rolled-0", 0o755),
        Owned(".kafka_cleanshutdown", 0o600, is_refused=False),
        Owned(METADATA, 0o755),
        Owned(METADATA_LOG, 0o644),
        Owned(METADATA_LOG, 0o600),
        Owned(f"{METADATA}/00000000000000000000.index", 0o644),
        Owned(f"{METADATA}/00000000000000000000.timeindex", 0o644),
        Owned(f"{METADATA}/00000000000000000155.snapshot", 0o600),
        Owned(f"{METADATA}/00000000000000000155.snapshot", 0o644, is_refused=False),
        Owned(f"{METADATA}/leader-epoch-checkpoint", 0o600),
        Owned(f"{METADATA}/leader-epoch-checkpoint", 0o644, is_refused=False),
        Owned(f"{METADATA}/partition.metadata", 0o600),
        Owned(f"{METADATA}/README", 0o600),
        Owned(SNAPSHOT, 0o600),
        Owned(SNAPSHOT, 0o644, is_refused=False),
        Owned(QUORUM_STATE, 0o600),
        Owned(QUORUM_STATE, 0o644, is_refused=False),
        Owned("bootstrap.checkpoint", 0o600),
        Owned("bootstrap.checkpoint", 0o644, is_refused=False),
        Owned(WAITING, 0o755, is_refused=False),
        Owned(f"{WAITING}/00000000000000000000.log", 0o644),
        Owned(f"{WAITING}/00000000000000000000.index", 0o644, is_refused=False),
        Owned(f"{WAITING}/leader-epoch-checkpoint", 0o600),
    )
}


def give_to_nobody(directory: Path) -> None:
    for path in (directory, *directory.rglob("*")):
        os.chown(path, NOBODY, NOBODY)


def refusals(*directories: Path, **options: object) -> tuple[StartupRefusal, ...]:
    return startup_refusals(Disk(), directories, **options)  # type: ignore[arg-type]
