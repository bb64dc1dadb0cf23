"""Directories are placed on hosts, and what cannot be placed is said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from stratalog.engine.hosts import Place, run_by_host
from stratalog.engine.threads import ThreadEngine
from stratalog.errors import UsageError
from stratalog.files.reading import DiskReader
from tests.engine.on_hosts import Hosts


def listed(disk: DiskReader, paths: Sequence[str]) -> dict[str, list[str]]:
    return {path: [entry.name for entry in disk.list_directory(path)] for path in paths}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/data", Place(None, "/data")),
        ("b1:/data", Place("b1", "/data")),
        ("127.0.0.2:/a/b:c", Place("127.0.0.2", "/a/b:c")),
        ("/a:/b", Place(None, "/a:/b")),
    ],
)
def test_a_directory_is_that_of_one_host_or_of_all(text: str, place: Place) -> None:
    assert Place.parse(text) == place
    assert str(place) == text


@pytest.mark.parametrize("text", ["data", "b1:data", "", ":/data"])
def test_a_relative_directory_has_no_place(text: str) -> None:
    with pytest.raises(UsageError, match="HOST:DIR or DIR"):
        Place.parse(text)


def test_each_host_looks_at_its_own_and_at_what_all_have(tmp_path: Path) -> None:
    for name in ("one", "two", "every"):
        (tmp_path / name / f"in-{name}").mkdir(parents=True)
    engine = Hosts("a", "b", "c")

    placed = run_by_host(engine, [f"a:{tmp_path}/one", f"b:{tmp_path}/two", f"{tmp_path}/every"], listed)

    every = {f"{tmp_path}/every": ["in-every"]}
    assert placed.reports == {
        "a": {f"{tmp_path}/one": ["in-one"], **every},
        "b": {f"{tmp_path}/two": ["in-two"], **every},
        "c": every,
    }
    assert placed.problems == ()
    assert engine.expected == ("a", "b")


def test_a_directory_with_a_slash_at_its_end_was_said_to_be_missing(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()

    placed = run_by_host(Hosts("a"), [f"{tmp_path}/one/"], listed)

    assert [*placed.reports] == ["a"]
    assert placed.problems == ()


def test_what_cannot_be_placed_is_said_and_the_others_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()

    placed = run_by_host(
        Hosts("a", "b"), [f"a:{tmp_path}/one", f"gone:{tmp_path}/one", f"{tmp_path}/nowhere"], listed
    )

    assert [*placed.reports] == ["a"]
    assert placed.problems == (
        (f"gone:{tmp_path}/one", "No executor runs on this host. The hosts are: a, b."),
        (f"{tmp_path}/nowhere", "No host has this directory. The hosts are: a, b."),
    )
    assert placed.notes == ("b has none of these directories.",)


def test_a_host_that_fails_is_said_and_the_others_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()

    placed = run_by_host(Hosts("a", "b"), [f"a:{tmp_path}/missing", f"b:{tmp_path}/one"], listed)

    assert [*placed.reports] == ["b"]
    ((where, words),) = placed.problems
    assert where == "a:"
    assert f"{tmp_path}/missing" in words


def test_threads_have_no_hosts() -> None:
    with pytest.raises(UsageError, match="--master"):
        run_by_host(ThreadEngine(1), ["/data"], listed)
