"""The text files of a log directory."""

from __future__ import annotations

import json

import pytest

from tests.cli.dumps import dump
from tests.fixtures.catalog import log_dirs

CLEAN = log_dirs("4.3.1", "clean")[0]
Capture = pytest.CaptureFixture[bytes]


def test_text_files_are_dumped_by_name(capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CLEAN)

    dumped = dump(
        capsysbinary,
        "log-start-offset-checkpoint",
        "txn-0/leader-epoch-checkpoint",
        "txn-0/partition.metadata",
        ".kafka_cleanshutdown",
    )

    offsets = (CLEAN / "log-start-offset-checkpoint").read_text().splitlines()[2:]
    epochs = (CLEAN / "txn-0/leader-epoch-checkpoint").read_text().splitlines()[2:]
    broker_epoch = json.loads((CLEAN / ".kafka_cleanshutdown").read_text())["brokerEpoch"]
    assert dumped.lines == [
        "Dumping log-start-offset-checkpoint",
        *("topic: {} partition: {} offset: {}".format(*line.split()) for line in offsets),
        "Dumping txn-0/leader-epoch-checkpoint",
        *("epoch: {} startOffset: {}".format(*line.split()) for line in epochs),
        "Dumping txn-0/partition.metadata",
        *(CLEAN / "txn-0/partition.metadata").read_text().splitlines(),
        "Dumping .kafka_cleanshutdown",
        f"closed cleanly brokerEpoch: {broker_epoch}",
    ]
