"""The files of a log directory as a tree, against `find`; and the format that ncdu reads."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stratalog.files.disk import Disk
from stratalog.operations.disk_tree import ncdu_document, read_tree
from stratalog.version import __version__
from tests.manager.running import fixture_copy
from tests.operations.test_recover_owners import as_nobody, reachable

__all__ = ["reachable"]


def found_by_find(root: Path) -> dict[str, tuple[int, int]]:
    """(size, bytes on disk) of each file, by its path below the root."""
    command = ["find", str(root), "-type", "f", "-printf", "%P\t%s\t%b\n"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split("\t") for line in lines]
    return {path: (int(size), int(blocks) * 512) for path, size, blocks in rows}


def in_ncdu(folder: list[Any], path: str = "") -> Iterator[tuple[str, tuple[int, int]]]:
    for each in folder[1:]:
        if isinstance(each, list):
            yield from in_ncdu(each, f"{path}{each[0]['name']}/")
        else:
            yield f"{path}{each['name']}", (each["asize"], each["dsize"])


def test_every_file_is_in_the_tree_with_its_sizes(tmp_path: Path) -> None:
    root = fixture_copy("killed", tmp_path / "data")

    tree = read_tree(Disk(), str(root))

    expected = found_by_find(root)
    assert sorted((file.size, file.disk_size) for file in tree.every_file()) == sorted(expected.values())
    assert not list(tree.every_error())


def test_ncdu_gets_every_file_under_its_path(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")

    document = json.loads(json.dumps(ncdu_document([read_tree(Disk(), str(root))], 1_700_000_000_123)))

    assert document[:2] == [1, 2]
    assert document[2] == {"progname": "stratalog", "progver": __version__, "timestamp": 1_700_000_000}
    assert document[3][0]["name"] == str(root)
    assert dict(in_ncdu(document[3])) == found_by_find(root)


def test_two_directories_are_below_the_folder_that_has_both(tmp_path: Path) -> None:
    roots = [fixture_copy("clean", tmp_path / name) for name in ("one", "two")]

    document: list[Any] = ncdu_document([read_tree(Disk(), str(root)) for root in roots], 0)

    assert document[3][0] == {"name": str(tmp_path)}
    assert dict(in_ncdu(document[3])) == found_by_find(tmp_path)


def test_a_partition_may_be_a_link_but_no_other_link_is_followed(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    (root / "rolled-0").rename(tmp_path / "elsewhere")
    (root / "rolled-0").symlink_to(tmp_path / "elsewhere")
    (root / "txn-0" / "loop").symlink_to(root)

    tree = read_tree(Disk(), str(root))

    names = {folder.name: folder for folder in tree.folders}
    assert len(names["rolled-0"].files) == len(list((tmp_path / "elsewhere").iterdir()))
    assert not names["txn-0"].folders


def test_a_folder_that_cannot_be_listed_is_told(reachable: Path) -> None:
    if os.geteuid() != 0:
        return
    root = fixture_copy("clean", reachable / "data")
    (root / "txn-0").chmod(0o700)

    with as_nobody():
        tree = read_tree(Disk(), str(root))

    ((path, why),) = tree.every_error()
    assert path == str(root / "txn-0")
    assert "Permission denied" in why
    assert "read_error" in json.dumps(ncdu_document([tree], 0))
