"""The log directories of a killed broker, one or two of them, damaged in several places at once.

Partitions are damaged as in `recovery_cases.py`. This module has the damages of a whole directory: its
checkpoints, its meta.properties, its topic ids, and foreign files. Some of them keep a broker from starting,
whatever recovery does. The broker decides which, not this module.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.kafka.log_oracle import LogOracle
from tests.kafka.recovery_cases import Case, damage_once, logs_in
from tests.kafka.recovery_quarry import Partition, Quarry

STOPS_KAFKA = "small-index-0"  # scanned from its beginning it has more entries than its indexes hold
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
META = "meta.properties"
METADATA = "__cluster_metadata-0"


@dataclass(slots=True, kw_only=True)
class Node:
    """The log directories of one stopped broker, and what was done to them, in words."""

    log_dirs: list[Path]
    partitions: list[Case]
    damages: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "; ".join(self.damages)


def make_node(quarry: Quarry, seed: int, folder: Path, oracle: LogOracle) -> Node:
    """A damaged copy of a killed broker's directories in `folder`; every second one has two of them."""
    random = Random(seed)
    first = folder / "a"
    shutil.copytree(quarry.directory, first, ignore=shutil.ignore_patterns(".lock", STOPS_KAFKA))
    node = Node(log_dirs=[first], partitions=[])
    known = [each for each in quarry.partitions if each.directory.name != STOPS_KAFKA]
    moved = known[::2] if seed % 2 else []
    if moved:
        node.log_dirs.append(_second_directory(first, folder / "b", moved))
    for partition in known:
        home = node.log_dirs[1] if partition in moved else first
        node.partitions.append(
            Case(
                directory=home / partition.directory.name,
                config=partition.config,
                recovery_point=partition.recovery_point,
                log_start_offset=partition.log_start_offset,
            )
        )
    for _ in range(random.choice([1, 2, 2, 3, 4])):
        node.damages.append(_damage(node, random, oracle))
    return node


def _second_directory(first: Path, second: Path, moved: Sequence[Partition]) -> Path:
    """Another directory of the same broker, with these partitions and their lines of the checkpoints."""
    second.mkdir()
    names = {partition.directory.name for partition in moved}
    for name in names:
        (first / name).rename(second / name)
    own_id = base64.urlsafe_b64encode(bytes(range(1, 17))).decode().rstrip("=")
    lines = (first / META).read_text().splitlines()
    _write_lines(
        second / META, [f"directory.id={own_id}" if "directory.id" in line else line for line in lines]
    )
    for checkpoint in CHECKPOINTS:
        if (first / checkpoint).exists():
            rows = (first / checkpoint).read_text().splitlines()[2:]
            for directory, wants in ((first, False), (second, True)):
                own = [row for row in rows if ("-".join(row.split()[:2]) in names) is wants]
                _write_lines(directory / checkpoint, ["0", str(len(own)), *own])
    return second


def _write_lines(file: Path, lines: Sequence[str]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines))


def _damage(node: Node, random: Random, oracle: LogOracle) -> str:
    """One damage, in words."""
    choices: list[tuple[int, Callable[[Node, Random], str]]] = [
        (14, lambda node, random: _in_a_partition(node, random, oracle)),
        (4, _garble_checkpoint),
        (2, _delete_checkpoint),
        (3, _garble_topic_id),
        (2, _delete_topic_id),
        (2, _garble_epochs),
        (2, _leave_things_behind),
        (1, _add_folder),
        (1, _delete_meta),
        (1, _garble_meta),
        (1, _another_node),
        (1, _partition_twice),
        (1, _foreign_log),
    ]
    (damage,) = random.choices([each for _, each in choices], [weight for weight, _ in choices])
    return damage(node, random)


def _in_a_partition(node: Node, random: Random, oracle: LogOracle) -> str:
    case = random.choice(node.partitions)
    if not case.directory.is_dir() or not logs_in(case.directory):
        return "nothing"
    damage_once(case, random, oracle)
    return f"{case.directory.name}: {case.damages[-1]}"


def _garble_checkpoint(node: Node, random: Random) -> str:
    file = random.choice(node.log_dirs) / random.choice(CHECKPOINTS)
    how: dict[str, bytes] = {
        "empty": b"",
        "zeros": bytes(40),
        "noise": random.randbytes(60),
        "a word for a number": b"0\n1\nplain 0 many\n",
        "another version": b"9\n0\n",
        "fewer lines than it says": b"0\n3\nplain 0 1\n",
    }
    words = random.choice(list(how))
    file.write_bytes(how[words])
    return f"{file.name} of {file.parent.name}: {words}"


def _delete_checkpoint(node: Node, random: Random) -> str:
    file = random.choice(node.log_dirs) / random.choice(CHECKPOINTS)
    file.unlink(missing_ok=True)
    return f"{file.name} of {file.parent.name} deleted"


def _garble_topic_id(node: Node, random: Random) -> str:
    file = random.choice(node.partitions).directory / "partition.metadata"
    how: dict[str, bytes] = {
        "empty": b"",
        "zeros": bytes(43),
        "noise": random.randbytes(43),
        "half": file.read_bytes()[:20] if file.exists() else b"",
        "another version": b"version: 9\ntopic_id: " + b"A" * 22 + b"\n",
    }
    words = random.choice(list(how))
    file.write_bytes(how[words])
    return f"partition.metadata of {file.parent.name}: {words}"


def _delete_topic_id(node: Node, random: Random) -> str:
    file = random.choice(node.partitions).directory / "partition.metadata"
    file.unlink(missing_ok=True)
    return f"partition.metadata of {file.parent.name} deleted"


def _garble_epochs(node: Node, random: Random) -> str:
    file = random.choice(node.partitions).directory / "leader-epoch-checkpoint"
    file.write_bytes(random.choice([b"", bytes(8), b"0\nmany\n", random.randbytes(20)]))
    return f"leader-epoch-checkpoint of {file.parent.name} garbled"


def _leave_things_behind(node: Node, random: Random) -> str:
    """Things that a broker ignores: files at the root, a partition that waits for its removal."""
    directory = random.choice(node.log_dirs)
    (directory / "notes.txt").write_text("not Kafka's")
    waiting = directory / "gone-0.0123456789abcdef0123456789abcdef-delete"
    waiting.mkdir(exist_ok=True)
    return f"notes.txt and {waiting.name} in {directory.name}"


def _add_folder(node: Node, random: Random) -> str:
    folder = random.choice(node.log_dirs) / random.choice(["backup", "lost+found", "orders"])
    folder.mkdir(exist_ok=True)
    return f"a folder {folder.parent.name}/{folder.name}"


def _delete_meta(node: Node, random: Random) -> str:
    directory = random.choice(node.log_dirs)
    (directory / META).unlink(missing_ok=True)
    return f"{META} of {directory.name} deleted"


def _garble_meta(node: Node, random: Random) -> str:
    file = random.choice(node.log_dirs) / META
    how: dict[str, bytes] = {
        "empty": b"",
        "zeros": bytes(80),
        "without its version": b"node.id=1\n",
        "another version": b"version=7\nnode.id=1\n",
    }
    words = random.choice(list(how))
    file.write_bytes(how[words])
    return f"{META} of {file.parent.name}: {words}"


def _another_node(node: Node, random: Random) -> str:
    file = random.choice(node.log_dirs) / META
    if file.exists():
        file.write_bytes(file.read_bytes().replace(b"node.id=1", b"node.id=2"))
    return f"{META} of {file.parent.name} says node 2"


def _partition_twice(node: Node, random: Random) -> str:
    case = random.choice(node.partitions)
    others = [each for each in node.log_dirs if each != case.directory.parent]
    copy = (others or node.log_dirs)[0] / (case.directory.name if others else f"{case.topic}-00")
    if not case.directory.is_dir() or copy.exists():
        return "nothing"
    shutil.copytree(case.directory, copy)
    return f"{case.directory.name} is also {copy.parent.name}/{copy.name}"


def _foreign_log(node: Node, random: Random) -> str:
    file = random.choice(node.partitions).directory / random.choice(["foo.log", "server.log.1", "-1.log"])
    file.write_text("not Kafka's")
    return f"{file.parent.name}/{file.name}"
