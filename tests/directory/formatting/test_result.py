from __future__ import annotations

from tests.directory.formatting.test_records import ORDERS


def test_a_partition_without_a_directory_is_missing() -> None:
    assert ORDERS.missing == (1,)
