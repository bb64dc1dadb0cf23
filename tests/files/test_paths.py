"""Paths as text, joined and taken apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.files.paths import (
    absolute_path,
    command_text,
    is_name,
    is_path_text,
    join_path,
    last_name,
    parent_path,
    prefix_of,
)


@pytest.mark.parametrize(
    ("parts", "joined"),
    [
        (("/logs", "orders-0"), "/logs/orders-0"),
        (("/logs", "orders-0", "leader-epoch-checkpoint"), "/logs/orders-0/leader-epoch-checkpoint"),
        (("/logs/", "orders-0"), "/logs/orders-0"),
        (("/", "logs"), "/logs"),
        (("", "orders-0"), "orders-0"),
        (("./data", "orders-0"), "./data/orders-0"),
        ((Path("/logs"), "orders-0"), "/logs/orders-0"),
    ],
)
def test_names_are_joined_by_one_separator(parts: tuple[str, str], joined: str) -> None:
    assert join_path(*parts) == joined


@pytest.mark.parametrize(
    ("directory", "prefix"), [("/logs", "/logs/"), ("/logs/", "/logs/"), ("/", "/"), ("", "")]
)
def test_all_in_a_directory_begins_with_its_prefix(directory: str, prefix: str) -> None:
    assert prefix_of(directory) == prefix
    assert join_path(directory, "orders-0").startswith(prefix)


def test_a_neighbour_with_a_longer_name_does_not_begin_with_the_prefix() -> None:
    assert not "/logs-2/orders-0".startswith(prefix_of("/logs"))


def test_a_path_is_taken_apart() -> None:
    assert (parent_path("/logs/orders-0"), last_name("/logs/orders-0")) == ("/logs", "orders-0")
    assert (parent_path("orders-0"), last_name(Path("orders-0"))) == ("", "orders-0")


def test_a_command_in_a_message_can_be_copied_to_a_shell() -> None:
    assert command_text("recover", "--all", Path("/data/disk a"), "/b") == (
        "`stratalog recover --all '/data/disk a' /b`"
    )


def test_an_absolute_path_follows_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)

    assert absolute_path("link/../link/") == str(tmp_path / "link")
    assert absolute_path(tmp_path / "real") == str(tmp_path / "real")


@pytest.mark.parametrize("found", ["/logs", "", "a b", "\udcff"])
def test_any_other_text_can_be_a_path(found: str) -> None:
    assert is_path_text(found)


@pytest.mark.parametrize("found", ["a\0b", "\ud800", None, 5, ["/logs"], b"/logs"])
def test_what_the_system_refuses_as_a_path_is_known(found: object) -> None:
    assert not is_path_text(found)
    assert not is_name(found)


@pytest.mark.parametrize("found", ["orders-0", "..a", "\udcff"])
def test_a_name_is_one_of_a_file(found: str) -> None:
    assert is_name(found)


@pytest.mark.parametrize("found", ["", ".", "..", "a/b", "/a", "a/", "../a"])
def test_what_leads_to_another_directory_is_no_name(found: str) -> None:
    assert not is_name(found)
