"""`stratalog transactions`: what it prints; tests/questions/test_transactions.py has the answers."""

from __future__ import annotations

import json

import pytest

from stratalog.cli import main
from tests.fixtures.catalog import log_dirs

(KILLED,) = map(str, log_dirs("4.3.1", "killed"))


def test_an_open_transaction_is_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["transactions", KILLED, "--plain"]) == 0

    shown = capsys.readouterr().out
    assert "# Transactional ids" in shown
    assert "txn-0\t65\t5\t3002\t0\tleft-open\t" in shown
    assert shown.endswith("1 transaction open in the logs; none hangs.\n")


def test_json_has_producers_only_if_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["transactions", KILLED, "txn", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["producers"] is None

    arguments = ["--producers", "--now", "2026-11-15T22:00:00", "--max-timeout", "0", "--json"]
    assert main.run(["transactions", KILLED, "txn", *arguments]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {each["partition"] for each in document["producers"]} == {"txn-0"}
    assert document["now"] == 1794780000000
