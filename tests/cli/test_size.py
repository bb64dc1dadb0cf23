"""Sizes as people write them."""

from __future__ import annotations

import click
import pytest

from stratalog.cli.size import parse_size

COMMAND = click.Command("any")
CONTEXT = click.Context(COMMAND)
OPTION = click.Option(["--size"])


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("123", 123),
        ("400MB", 400_000_000),
        ("400 mb", 400_000_000),
        ("1.5GB", 1_500_000_000),
        ("64KiB", 65_536),
        ("2Gi", 2**31),
        ("1k", 1000),
        ("7b", 7),
    ],
)
def test_a_size_is_read(text: str, size: int) -> None:
    assert parse_size(CONTEXT, OPTION, text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1", "1e9", "4 00MB", "1.MB", "12XB"])
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(click.BadParameter, match="write 400MB"):
        parse_size(CONTEXT, OPTION, text)
