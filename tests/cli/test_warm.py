"""`stratalog warm` leaves every kernel ready, and the next process only loads them."""

from __future__ import annotations

import json

import pytest

from stratalog.cli import main


def test_kernels_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["warm", "--json"]) == 0

    kernels = {kernel["name"] for kernel in json.loads(capsys.readouterr().out)["kernels"]}
    assert kernels >= {
        "walk.walk",
        "clean.judge_batches",
        "clean.judge_records",
        "clean.write_batches",
        "decode.decode",
        "decode.decode_legacy",
        "encode.encode",
        "gather.gather",
        "hash.hash_keys",
        "index.index_batches",
        "index.seek",
        "lookup.find_record",
        "offset_map.get_offsets",
        "offset_map.put_newest",
        "offset_map.put_records",
        "recover.recover",
        "text.write_lines",
        "validate.check_set",
        "validate.check_records",
    }


def test_words_and_a_table_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["warm"]) == 0

    printed = capsys.readouterr()
    assert "walk.walk" in printed.out
    assert "kernels are ready after" in printed.err
