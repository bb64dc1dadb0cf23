"""Nodes of two log directories with a planted fault, and healthy ones, for `doctor` and for a broker.

A case changes the files, the order of log.dirs or the settings. Nothing here says what follows from it: a
broker of 4.3.1 is started on each, and `doctor` must have said the same before.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.directory.refused import (
    EPOCHS,
    MARKER,
    METADATA,
    OTHER_ID,
    QUORUM_STATE,
    SNAPSHOT,
    VOTED,
    cut,
    edit,
    file_instead,
    flip,
    folder,
    link_instead,
    remove,
    with_second,
    write,
)
from tests.fixtures import catalog

START_OFFSETS = "log-start-offset-checkpoint"
Make = Callable[[Path], object]


@dataclass
class Planted:
    """The directories of a node: `one` has the cluster's metadata, `two` has the partition rolled-0."""

    root: Path
    one: Path
    two: Path
    log_dirs: list[Path]
    properties: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path) -> Planted:
        (source,) = catalog.log_dirs("4.3.1", "clean")
        one = Path(shutil.copytree(source, root / "one"))
        two = with_second(one)
        return cls(root, one, two, [one, two])


Plant = Callable[[Planted], object]


def in_one(*makes: Make) -> Plant:
    return lambda node: [make(node.one) for make in makes]


def in_two(*makes: Make) -> Plant:
    return lambda node: [make(node.two) for make in makes]


def in_both(*makes: Make) -> Plant:
    return lambda node: [make(directory) for directory in (node.one, node.two) for make in makes]


def voted(old: str, new: str) -> Plant:
    assert old in VOTED
    return in_one(write(QUORUM_STATE, VOTED.replace(old, new).encode()))


def remove_folder(name: str) -> Make:
    return lambda directory: shutil.rmtree(directory / name)


def named(*names: str) -> Plant:
    """log.dirs names these folders, in this order."""

    def plant(node: Planted) -> None:
        node.log_dirs = [node.root / name for name in names]

    return plant


def by_a_link(node: Planted) -> None:
    (node.root / "link").symlink_to(node.one)
    node.log_dirs.append(node.root / "link")


def metadata_elsewhere(node: Planted) -> None:
    (node.root / "metadata").mkdir()
    node.properties["metadata.log.dir"] = str(node.root / "metadata")


def metadata_moved(*makes: Make) -> Plant:
    """The metadata is in a metadata.log.dir that is not in log.dirs, and is changed there."""

    def plant(node: Planted) -> None:
        place = node.root / "metadata"
        place.mkdir()
        shutil.move(node.one / METADATA, place / METADATA)
        shutil.copy(node.one / "bootstrap.checkpoint", place)
        meta = (node.one / "meta.properties").read_text()
        (place / "meta.properties").write_text(re.sub("directory.id=.*", f"directory.id={OTHER_ID}", meta))
        node.properties["metadata.log.dir"] = str(place)
        for make in makes:
            make(place)

    return plant


def exchanged_ids(*makes: Make) -> Plant:
    """The cluster's metadata assigns all partitions to the second directory, which is changed."""

    def plant(node: Planted) -> None:
        first, second = (directory / "meta.properties" for directory in (node.one, node.two))
        old, new = first.read_text(), second.read_text()
        first.write_text(new)
        second.write_text(old)
        for make in makes:
            make(node.two)

    return plant


def never_started(*makes: Make) -> Plant:
    """Directories that were formatted and have no data yet."""

    def plant(node: Planted) -> None:
        for directory in node.log_dirs:
            for path in directory.iterdir():
                if path.name not in ("meta.properties", "bootstrap.checkpoint"):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        for make in makes:
            make(node.one)

    return plant


PLANTED: dict[str, Plant] = {
    "a metadata.log.dir without meta.properties": metadata_moved(remove("meta.properties")),
    "a metadata.log.dir with a garbled meta.properties": metadata_moved(write("meta.properties", b"x")),
    "a metadata.log.dir of another node": metadata_moved(edit("meta.properties", "node.id=1", "node.id=2")),
    "a metadata.log.dir that is not there": metadata_moved(shutil.rmtree),
    "a metadata.log.dir whose quorum-state is garbled": metadata_moved(write(QUORUM_STATE, b"{}")),
    "a metadata.log.dir whose snapshot is zeroed": metadata_moved(write(SNAPSHOT, bytes(500))),
    "a metadata.log.dir whose bootstrap.checkpoint is cut": metadata_moved(cut("bootstrap.checkpoint", 200)),
    "a metadata.log.dir with a file without an offset": metadata_moved(write(f"{METADATA}/x.log", b"")),
    "bootstrap.checkpoint cut before the first start": never_started(cut("bootstrap.checkpoint", 200)),
    "a snapshot of the metadata zeroed": in_one(write(SNAPSHOT, bytes(500))),
    "a snapshot of the metadata with a flipped byte": in_one(flip(SNAPSHOT, 800)),
    "a snapshot of the metadata cut": in_one(cut(SNAPSHOT, 1500)),
    "a snapshot of the metadata that is a folder": in_one(folder(SNAPSHOT)),
    "quorum-state without anything": in_one(write(QUORUM_STATE, b"{}")),
    "quorum-state of version 2": voted('"data_version":0', '"data_version":2'),
    "quorum-state with a word for an epoch": voted('"leaderEpoch":3', '"leaderEpoch":"three"'),
    "quorum-state.tmp that is a folder": in_one(
        folder(f"{QUORUM_STATE}.tmp"), write(f"{QUORUM_STATE}.tmp/x", b"")
    ),
    "a partition that is a file": in_one(file_instead("logappend-0")),
    "a partition that is a link to nowhere": in_one(link_instead("logappend-0")),
    "a partition of the second directory that is a link to nowhere": exchanged_ids(link_instead("rolled-0")),
    "metadata that is a link to nowhere": in_one(link_instead(METADATA)),
    "metadata in both directories": lambda node: shutil.copytree(node.one / METADATA, node.two / METADATA),
    "metadata in the second directory of log.dirs": named("second", "one"),
    "metadata that is a file": in_one(remove_folder(METADATA), write(METADATA, b"")),
    "metadata in another place than metadata.log.dir": metadata_elsewhere,
    "metadata with the id of another topic": in_one(
        write(f"{METADATA}/partition.metadata", f"version: 0\ntopic_id: {OTHER_ID}".encode())
    ),
    "metadata with a folder for an index": in_one(folder(f"{METADATA}/00000000000000000000.index")),
    "bootstrap.checkpoint cut": in_one(cut("bootstrap.checkpoint", 200)),
    "the starts of logs zeroed in the first directory": in_one(write(START_OFFSETS, bytes(8))),
    "the starts of logs zeroed in the second directory": in_two(write(START_OFFSETS, bytes(8))),
    "the starts of logs zeroed in both directories": in_both(write(START_OFFSETS, bytes(8))),
    "leader epochs below zero": in_two(write(EPOCHS, b"0\n1\n-1 0\n")),
    "leader epochs with a line too many": in_two(write(EPOCHS, b"0\n1\n0 0\n2 20\n")),
    "meta.properties that is a folder": in_two(folder("meta.properties")),
    "a lock that is a folder": in_two(folder(".lock")),
    "a clean-shutdown file that is a folder": in_two(folder(MARKER), write(f"{MARKER}/x", b"")),
    "an index that is a folder": in_two(folder("rolled-0/00000000000000000072.index")),
    "a partition in both directories": lambda node: shutil.copytree(
        node.two / "rolled-0", node.one / "rolled-0"
    ),
    "a log directory in a log directory": lambda node: shutil.copytree(node.two, node.one / "kafka-logs"),
    "an index of transactions of a later version": in_two(
        write("rolled-0/00000000000000000020.txnindex", b"\1" * 50)
    ),
    "a log that is a folder": in_one(folder("logappend-0/00000000000000000000.log")),
    "a link to another folder": in_two(lambda directory: (directory / "backup").symlink_to("/")),
    "one directory by two names": by_a_link,
    "another node.id in server.properties": lambda node: node.properties.update({"node.id": "2"}),
}
