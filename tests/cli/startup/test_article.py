"""The article's table, as its author wrote it."""

from __future__ import annotations

import pytest

from stratalog.cli.startup.article import article_gain, article_text


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (("kafka-2.1", "clean", 1), "3 min 4 s, 30 s (a partition 100-200 ms, 20 ms)"),
        (("kafka-2.1", "clean, many segments", 1), "2 min 36 s, 1 min 54 s"),
        (("lazy", "clean, many segments", 1), "1 min 14 s, 52 s"),
        (
            ("kafka-2.1", "unclean", 1),
            "1 h 16 min, 1 h 18 min (a partition about 4 s; disk mostly about 90 %)",
        ),
        (("kafka-2.1", "unclean", 2), "1 h 36 min, 1 h 39 min (disk above 90 %)"),
        (("dedupe", "unclean", 1), "50 min, 49 min (a partition 2-3 s; disk above 90 %)"),
        (("dedupe", "unclean", 2), "51 min (disk above 90 %)"),
        (("dedupe", "unclean", 4), "53 min (disk above 90 %)"),
        (("stratalog", "unclean", 1), ""),
    ],
)
def test_each_cell_is_told_as_the_article_has_it(cell: tuple[str, str, int], text: str) -> None:
    assert article_text(*cell) == text


def test_gains_are_against_kafka_2_1_with_one_thread_in_the_same_state() -> None:
    assert article_gain("kafka-2.1", "unclean", 1) == 1
    assert article_gain("dedupe", "unclean", 1) == pytest.approx(77 / 49.5)
    assert article_gain("kafka-2.1", "unclean", 2) == pytest.approx(77 / 97.5)
    assert article_gain("lazy", "clean, many segments", 1) == pytest.approx(135 / 63)
    assert article_gain("lazy", "unclean", 1) is None
