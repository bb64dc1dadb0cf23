"""Directories to be formatted, and what a broker would find in formatted ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

from stratalog.directory.cluster_metadata import ClusterMetadata, read_cluster_metadata
from stratalog.directory.formatting.choices import FormatOptions
from stratalog.directory.formatting.format import format_directories
from stratalog.directory.formatting.result import FormatResult
from stratalog.directory.meta_properties import read_meta_properties
from stratalog.directory.startup_refusals import startup_refusals
from stratalog.files.disk import Disk
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.partition_metadata import topic_id_of
from tests.jobs.writing.sinking import NoLock
from tests.log.model import NOW

METADATA = "__cluster_metadata-0"
NOTES = ("stratalog-format.json", "stratalog-topics.json")


def ids(start: int = 1) -> Callable[[], UUID]:
    """Ids that count up, so that two runs can be told apart."""
    numbers = iter(range(start, start + 10_000))
    return lambda: UUID(int=next(numbers) << 64 | 5)


def format_on(
    disk: SimulatedDisk, directories: Sequence[str], options: FormatOptions | None = None, *, start: int = 1
) -> FormatResult:
    """A format on a simulated disk."""
    return format_directories(
        directories, options, disk=disk, clock=lambda: NOW, make_lock=NoLock, make_id=ids(start)
    )


def on_a_simulated_disk(**directories: Path) -> SimulatedDisk:
    """Copies of real directories, at /NAME."""
    disk = SimulatedDisk.of(
        {
            f"/{name}/{path.relative_to(root)}": path.read_bytes()
            for name, root in directories.items()
            for path in root.rglob("*")
            if path.is_file()
        },
        lambda: NOW,
    )
    for name in directories:
        disk.make_directories(f"/{name}")
    disk.sync_everything()
    disk.steps = 0
    return disk


def metadata_of(directory: Path | str, disk: Disk | None = None) -> ClusterMetadata:
    metadata = read_cluster_metadata(disk or Disk(), f"{directory}/{METADATA}")
    assert metadata.problem is None
    return metadata


def check_formatted(disk: Disk, log_dirs: Sequence[str], partitions: Sequence[str], node_id: int = 1) -> None:
    """All that a broker goes by fits together; the first directory has the metadata."""
    metadata = metadata_of(log_dirs[0], disk)
    metas = [read_meta_properties(disk, directory) for directory in log_dirs]
    assert None not in metas
    assert {(meta.node_id, meta.version) for meta in metas if meta} == {(node_id, 1)}
    assert len({meta.cluster_id for meta in metas if meta}) == 1
    own = {directory: meta.directory_id for directory, meta in zip(log_dirs, metas, strict=True) if meta}
    assert len(set(own.values())) == len(own)
    assert metadata.broker_directories == {node_id: frozenset(own.values())}
    for path in partitions:
        topic, _, number = Path(path).name.rpartition("-")
        assert topic_id_of(disk, path) == metadata.topic_id(topic)
        assert metadata.topics[topic].replicas[int(number)] == (node_id,)
    epoch = {"version": 0, "brokerEpoch": metadata.broker_epochs[node_id]}
    for directory in log_dirs:
        assert json.loads(disk.read_file(f"{directory}/.kafka_cleanshutdown") or b"") == epoch
        assert not [name for name in NOTES if disk.exists(f"{directory}/{name}")]
        assert disk.exists(f"{directory}/bootstrap.checkpoint")
    assert startup_refusals(disk, log_dirs, node_id=node_id) == ()
