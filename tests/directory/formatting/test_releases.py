"""The features are compared with those of Kafka's tool in tests/kafka/test_format.py."""

from __future__ import annotations

import pytest

from stratalog.directory.formatting.releases import DEFAULT_RELEASE, RELEASES, release_of
from stratalog.errors import UsageError


def test_metadata_version_comes_first_and_ascends() -> None:
    levels = [release_of(name).features[0] for name in RELEASES]

    assert {name for name, _ in levels} == {"metadata.version"}
    assert levels == sorted(levels)
    assert RELEASES[-1] == DEFAULT_RELEASE


def test_records_are_of_the_version_that_the_release_reads() -> None:
    assert [(name, release_of(name).partition_version, release_of(name).has_elr) for name in RELEASES] == [
        ("3.9", 1, False),
        ("4.0", 2, False),
        ("4.1", 2, True),
        ("4.2", 2, True),
        ("4.3", 2, True),
    ]


def test_a_release_that_is_not_known_is_refused() -> None:
    with pytest.raises(UsageError, match=r"the release is '2\.8': it must be one of 3\.9"):
        release_of("2.8")
