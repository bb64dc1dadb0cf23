"""Open transactions by the records of a real broker's `__transaction_state`."""

from __future__ import annotations

import json

import pytest

from stratalog.operations.audit.coordinated import CoordinatedTxn, TransactionStates, open_transactions
from stratalog.records.kernels.memory import byte_array
from stratalog.records.walk import walk_batches
from tests.fixtures.catalog import log_dirs

_OPEN = {"Ongoing", "PrepareCommit", "PrepareAbort"}


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_the_states_are_those_that_kafkas_decoder_prints(state: str) -> None:
    (directory,) = log_dirs("4.3.1", state)
    log = next((directory / "__transaction_state-0").glob("*.log"))
    text = (directory.parent / "dump" / "__transaction_state-0.decoded.txt").read_text()
    last: dict[str, tuple[int, int]] = {}
    for line in text.splitlines():
        if " key: {" in line and " payload: {" in line:
            key = json.loads(line.partition(" key: ")[2].partition(" payload: ")[0])["data"]
            value = json.loads(line.partition(" payload: ")[2])["data"]
            last[key["transactionalId"]] = value["producerId"], value["transactionStatus"]
    states = TransactionStates()
    data = log.read_bytes()

    states.add(byte_array(data), walk_batches(data).headers)

    found = {each.transactional_id: (each.producer_id, each.is_open) for each in states.result()}
    assert found == {name: (producer, status in (1, 2, 3)) for name, (producer, status) in last.items()} != {}


def test_the_last_state_of_an_id_counts() -> None:
    states = [CoordinatedTxn("a", 1, True), CoordinatedTxn("b", 2, True), CoordinatedTxn("a", 1, False)]

    assert open_transactions(states) == {2}
