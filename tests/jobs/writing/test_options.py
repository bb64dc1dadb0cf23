"""The options of a write."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import StratalogError, UsageError
from stratalog.jobs.writing.options import _KNOWN, WriteOptions


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topik": "a"}, "did you mean topic"),
        ({"kafka.acks": "1"}, "no client is used here"),
        ({"partitions": "0"}, "number of partitions above 0"),
        ({"partitions": "[1]"}, "it must be JSON like"),
        ({"compression": "brotli"}, "one of none, gzip"),
        ({"compression": "zstd", "kafka.compression.type": "lz4"}, "contradict"),
        ({"batchSize": "-1"}, "number of bytes above 0"),
        ({"sync": "maybe"}, "true or false"),
        ({"topicId": "k3jUvR3lSY2s4FGnLT5bFA"}, "give the option topic too"),
        ({"topic": "a/b"}, "ASCII letters"),
        ({"paths": '["/a", "/b"]'}, "one log directory"),
        ({"path": "hdfs://node/data"}, "only directories in this machine's file system"),
    ],
)
def test_what_is_wrong_with_an_option_is_told(options: dict[str, str], words: str) -> None:
    with pytest.raises(StratalogError, match=words):
        WriteOptions.parse({"path": "/data", **options} if "paths" not in options else options)


@pytest.mark.parametrize("path", ["/data", "file:/data", "file:///data", "/data/"])
def test_a_path_may_be_one_of_sparks(path: str) -> None:
    assert WriteOptions.parse({"path": path}).path == "/data"


def test_no_path_is_an_error() -> None:
    with pytest.raises(UsageError, match="no directory is given"):
        WriteOptions.parse({"topic": "a"})


def test_each_option_has_its_place_in_the_docs() -> None:
    text = (Path(__file__).parents[3] / "docs" / "spark.md").read_text("utf-8").partition("## Writing")[2]

    assert [name for name in _KNOWN if name not in ("path", "paths") and f"`{name}`" not in text] == []
