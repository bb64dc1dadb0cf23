"""Records that a decoder reads."""

from __future__ import annotations

import pytest

from tests.cli.dumps import dump, relative
from tests.fixtures.catalog import Partition, partitions

DECODERS = {
    "__consumer_offsets-0": "--offsets-decoder",
    "__transaction_state-0": "--transaction-log-decoder",
    "__share_group_state-0": "--share-group-state-decoder",
    "__cluster_metadata-0": "--cluster-metadata-decoder",
}
Capture = pytest.CaptureFixture[bytes]


@pytest.mark.parametrize("partition", [p for p in partitions() if p.decoded_dump], ids=str)
def test_internal_topics_are_decoded_as_by_kafka(
    partition: Partition, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = partition.path.parent
    monkeypatch.chdir(logs)
    files = partition.logs + partition.checkpoints
    assert partition.decoded_dump is not None

    dumped = dump(capsysbinary, DECODERS[partition.name], "--files", relative(files, logs))

    assert dumped.out == partition.decoded_dump.read_bytes().decode()
