"""What holds in the internal topics of a fixture, by the word of Kafka's dump tool."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

FIXTURE = Path(__file__).parent.parent / "fixtures" / "kafka-4.3.1" / "clean"
LOGS = str(FIXTURE / "logs")
GROUP_TYPES = {"2": "classic", "3": "consumer", "11": "share", "17": "streams"}


def newest(topic: str, aborted: range = range(0)) -> list[tuple[str, Any, Any]]:
    """(type, key, value) of the last record of each key in the dump, less tombstones and what was aborted."""
    text = (FIXTURE / "dump" / f"{topic}-0.decoded.txt").read_text("utf-8")
    found = {}
    for line in re.finditer(r"^\| offset: (\d+) .*? key: (.*?) payload: (.*)$", text, re.MULTILINE):
        if int(line[1]) not in aborted:
            found[line[2]] = line[3]
    return [
        (json.loads(key)["type"], json.loads(key)["data"], json.loads(value)["data"])
        for key, value in found.items()
        if value != "<DELETE>"
    ]


def aborted_offsets() -> range:
    """The offsets that a transaction committed and that was aborted, by the batches in the plain dump."""
    text = (FIXTURE / "dump" / "__consumer_offsets-0.txt").read_text("utf-8")
    batches = re.findall(
        r"^baseOffset: (\d+) lastOffset: (\d+) .*? isTransactional: (\w+) isControl: (\w+)", text, re.M
    )
    marker = re.search(r"^\| offset: (\d+) .*endTxnMarker: ABORT", text, re.MULTILINE)
    assert marker is not None
    before = [each for each in batches if each[2:] == ("true", "false") and int(each[1]) < int(marker[1])]
    return range(int(before[-1][0]), int(before[-1][1]) + 1)


def dumped_commits() -> set[tuple[str, str, int, int]]:
    """(group, topic, partition, offset) of each commit that a coordinator would load."""
    return {
        (key["group"], key["topic"], key["partition"], value["offset"])
        for kind, key, value in newest("__consumer_offsets", aborted_offsets())
        if kind == "1"
    }


def dumped_groups() -> set[tuple[str, str, int]]:
    """(group, type, generation or epoch) of each group."""
    return {
        (key.get("group", key.get("groupId")), GROUP_TYPES[kind], value.get("generation", value.get("epoch")))
        for kind, key, value in newest("__consumer_offsets")
        if kind in GROUP_TYPES
    }


def dumped_members() -> set[tuple[str, str, str]]:
    """(group, member id, client id) of each member."""
    expected = set()
    for kind, key, value in newest("__consumer_offsets"):
        if kind == "2":
            expected |= {(key["group"], each["memberId"], each["clientId"]) for each in value["members"]}
        elif kind in ("5", "10", "19"):
            expected.add((key["groupId"], key["memberId"], value["clientId"]))
    return expected


def dumped_transactions() -> dict[str, int]:
    """The producer id of each transactional id."""
    return {key["transactionalId"]: value["producerId"] for _, key, value in newest("__transaction_state")}
