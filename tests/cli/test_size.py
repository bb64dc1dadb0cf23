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


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("9007199254740993", 2**53 + 1),
        ("9007199254740993b", 2**53 + 1),
        ("9007199254.740993GB", 2**53 * 1000 + 1000),
    ],
)
def test_a_size_above_2_to_the_53_lost_its_last_digits(text: str, size: int) -> None:
    assert parse_size(CONTEXT, OPTION, text) == size


@pytest.mark.parametrize("text", ["9" * 311, "9" * 5000, "9" * 20, "8388608TiB", "0." + "9" * 5000])
def test_a_size_of_more_than_310_digits_ended_in_a_traceback(text: str) -> None:
    with pytest.raises(
        click.BadParameter, match="more than a file can have: write at most 9223372036854775807"
    ):
        parse_size(CONTEXT, OPTION, text)


@pytest.mark.parametrize("text", ["", "MB", "-1", "1e9", "4 00MB", "1.MB", "12XB"])
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(click.BadParameter, match="write 400MB"):
        parse_size(CONTEXT, OPTION, text)
