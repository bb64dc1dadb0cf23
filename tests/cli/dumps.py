"""Runs dumps for tests, and says where the lines of Kafka's tool are deliberately not ours."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stratalog.cli import main
from tests.fixtures.catalog import log_dirs

ENTRY_SIZES = {".index": 8, ".timeindex": 12}


@dataclass(frozen=True, slots=True)
class Dumped:
    """What a dump printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def dump(capture: pytest.CaptureFixture[bytes], *arguments: str | Path) -> Dumped:
    """Run `stratalog dump` in this process."""
    status = main.run(["dump", *map(str, arguments)])
    printed = capture.readouterr()
    return Dumped(status, printed.out.decode(), printed.err.decode())


def expected_lines(kafka: str, folder: Path) -> str:
    """The tool's output without the entries that it reads from the zeros of a preallocated index.

    docs/dump-differences.md, "It recognises zeros".
    """
    for name in padded_indexes(kafka, folder):
        offset = int(Path(name).name.partition(".")[0])
        if name.endswith(".index"):
            phantom, instead = f"offset: {offset} position: 0\n", f"{name} is empty.\n"
        else:
            phantom, instead = f"timestamp: 0 offset: {offset}\n", ""
        head = f"Dumping {name}\n"
        assert kafka.count(head + phantom) == 1
        kafka = kafka.replace(head + phantom, head + instead)
    return kafka


def expected_complaints(kafka: str, folder: Path, dumped: str) -> list[list[str]]:
    """The tool's complaints, file by file, without those against such entries.

    Sorted: its files come in the order of a Java hash map.
    """
    padded = {str(folder / name) for name in padded_indexes(dumped, folder)}
    return [block for block in complaint_blocks(kafka) if _path_of(block[0]) not in padded]


def complaint_blocks(complaints: str) -> list[list[str]]:
    """Each complaint's headline with its lines, sorted."""
    blocks: list[list[str]] = []
    for line in complaints.splitlines():
        if re.match(r" |Indexed offset:", line):
            blocks[-1].append(line)
        else:
            blocks.append([line])
    return sorted(blocks)


def padded_indexes(dumped: str, folder: Path) -> list[str]:
    """The dumped indexes that begin with zeros, and are longer than one entry that could be zeros."""
    names = re.findall(r"^Dumping (.*\.(?:time)?index)$", dumped, re.MULTILINE)
    return [name for name in names if _is_padded((folder / name).read_bytes(), Path(name).suffix)]


def _is_padded(data: bytes, suffix: str) -> bool:
    size = ENTRY_SIZES[suffix]
    return len(data) > size and not any(data[: 2 * size])


def _path_of(headline: str) -> str:
    return re.split(r" in :| in ", headline, maxsplit=1)[1]


def tree_hash(folder: Path) -> str:
    """A hash over the names, bytes and times of all files, which a dump must not change."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        status = file.stat()
        digest.update(f"{file} {status.st_size} {status.st_mtime_ns} {status.st_mode}\n".encode())
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()


def relative(files: Sequence[Path], folder: Path) -> str:
    """A --files argument."""
    return ",".join(os.path.relpath(file, folder) for file in files)


SEGMENT = log_dirs("4.3.1", "clean")[0] / "rolled-0" / "00000000000000000000.log"


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n") if line]
