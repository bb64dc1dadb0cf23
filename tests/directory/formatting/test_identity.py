from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from stratalog.directory.formatting.choices import FormatOptions
from stratalog.directory.formatting.identity import check_unformatted, decide_identity, new_id, with_topics
from stratalog.directory.meta_properties import MetaProperties, write_meta_properties
from stratalog.errors import FormatRefusedError
from stratalog.files.disk import Disk
from stratalog.log.partition_metadata import topic_id_to_text
from tests.directory.formatting.forming import ids

DASHED = UUID(bytes=b"\xf8" + bytes(14) + b"\x09")  # -AAAA...


def test_an_id_never_looks_like_an_option_and_never_has_a_meaning() -> None:
    wanted = UUID(int=12345 << 64)
    drawn = iter([DASHED, UUID(int=0), UUID(int=1), UUID(int=2), wanted])

    assert topic_id_to_text(DASHED).startswith("-")
    assert new_id(drawn.__next__) == topic_id_to_text(wanted)


def test_a_new_identity_has_an_id_for_each_directory_and_topic() -> None:
    identity = decide_identity(FormatOptions(node_id=4), ["/a", "/b"], "/a", None, ids())
    more = with_topics(identity, ["x", "y"], ids(100))
    again = with_topics(more, ["x", "z"], ids(200))

    assert identity.node_id == 4
    every = [
        identity.cluster_id,
        identity.incarnation_id,
        *identity.directories.values(),
        *more.topics.values(),
    ]
    assert len({*every}) == 6
    assert again.topics["x"] == more.topics["x"]
    assert again.topics.keys() == {"x", "y", "z"}


def test_a_directory_of_another_node_is_not_part_of_an_interrupted_format(tmp_path: Path) -> None:
    path = str(tmp_path)
    identity = decide_identity(FormatOptions(), [path], path, None, ids())
    own = MetaProperties(node_id=1, cluster_id=identity.cluster_id, directory_id=identity.directories[path])
    write_meta_properties(Disk(), path, own, now_ms=0)

    check_unformatted(Disk(), [path], identity)
    for other in (None, decide_identity(FormatOptions(), [path], path, None, ids(50))):
        with pytest.raises(FormatRefusedError, match="formatted already"):
            check_unformatted(Disk(), [path], other)
