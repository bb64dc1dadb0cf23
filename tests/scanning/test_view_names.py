"""A query names the topics that it reads, and not those whose names are parts of others."""

from __future__ import annotations

import pytest

from stratalog.scanning.view_names import is_named, two_meanings


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("SELECT 1 FROM orders", True),
        ("SELECT orders.offset FROM Orders, users", True),
        ("SELECT 1 FROM `orders`", True),
        ('SELECT 1 FROM main."orders"', True),
        ("SELECT 1 FROM main.orders", True),
        ("SELECT 1 FROM (SELECT 1 FROM orders)", True),
        ("SELECT 1 FROM orders--all", True),
        ("SELECT 1 FROM orders;", True),
        ("SELECT 1 FROM reorders", False),
        ("SELECT 1 FROM orders_old", False),
        ("SELECT 1 FROM `orders-old`", False),
        ("SELECT 1 FROM `old-orders`", False),
        ("SELECT 1 FROM `orders.eu`", False),
        ("SELECT value.orders FROM users", False),
        ("SELECT 1 FROM users WHERE topic = 'orders'", False),
        ("SELECT 'it''s orders' FROM users", False),
        ("SELECT 'it''s' FROM orders WHERE 'a' = 'b'", True),
        ("SELECT 1 AS \"it's\" FROM orders WHERE 'a' = 'b'", True),
        ("SELECT 'it\\'s' FROM orders WHERE 'a' = 'b'", True),
        ("SELECT 1 -- it's\n FROM orders -- that's all", True),
    ],
)
def test_a_topic_is_named_or_only_a_part_of_a_name(query: str, named: bool) -> None:
    assert is_named("orders", query) == named


def test_dots_and_hyphens_of_a_name_are_themselves() -> None:
    assert is_named("web.clicks-eu", "SELECT 1 FROM `web.clicks-eu`")
    assert not is_named("web.clicks", "SELECT 1 FROM webxclicks")


def test_a_name_with_two_meanings_is_told_with_what_to_do() -> None:
    assert "scan(..., topics='kafka_lag')" in two_meanings("kafka_lag")
