"""The commands to run next: each once, in a safe order, and never from a name on the disk."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from stratalog.cli.main import cli
from stratalog.operations.audit.audit import AuditRequest
from stratalog.operations.audit.finding import AuditFinding
from stratalog.operations.audit.kinds import AuditKind, Severity
from stratalog.operations.audit.page.advice import next_commands
from tests.manager.running import fixture_copy
from tests.operations.audit.planting import DAMAGES, PlantedDamage

# What a command alone mends: not what must be deleted first, moved away, or decided.
MENDED = [
    damage
    for damage in DAMAGES
    if "`stratalog " in (remedy := AuditKind(damage.kind).rule.remedy)
    and not any(word in remedy for word in ("delete", "Look", "Copy", "Find out"))
]


def found(kind: AuditKind, directory: str = "/d", **values: object) -> AuditFinding:
    fields = {"partition": "t-0", "file": "0.log", "words": "It is so.", **values}
    return AuditFinding(kind=kind, directory=directory, **fields)  # type: ignore[arg-type]


def commands(*findings: AuditFinding, directories: tuple[str, ...] = ("/d",)) -> list[str]:
    return [each.command for each in next_commands(findings, directories)]


def test_a_recovery_comes_after_its_dry_run_and_an_audit_last() -> None:
    assert commands(found(AuditKind.WRONG_LEADER_EPOCH)) == [
        "stratalog recover --dry-run --all /d",
        "stratalog recover --all /d",
        "stratalog audit /d",
    ]


def test_indexes_are_rebuilt_when_the_logs_are_repaired() -> None:
    assert commands(found(AuditKind.INDEX_ENTRY), found(AuditKind.WRONG_CRC)) == [
        "stratalog recover --dry-run --all --salvage /d",
        "stratalog recover --all --salvage /d",
        "stratalog index --dry-run /d",
        "stratalog index /d",
        "stratalog audit /d",
    ]


def test_a_recovery_that_would_cut_is_not_run_before_the_one_that_salvages() -> None:
    """`recover --all` first would cut off what `--salvage` keeps."""
    asked = next_commands(
        [found(AuditKind.WRONG_LEADER_EPOCH), found(AuditKind.WRONG_CRC), found(AuditKind.TORN_TAIL)], ["/d"]
    )

    assert [each.command for each in asked] == [
        "stratalog recover --dry-run --all --salvage /d",
        "stratalog recover --all --salvage /d",
        "stratalog audit /d",
    ]
    assert (asked[1].findings_count, asked[1].severity) == (3, Severity.ERROR)


def test_each_directory_has_its_own() -> None:
    found_there = found(AuditKind.WRONG_CRC, "/a"), found(AuditKind.WRONG_LEADER_EPOCH, "/b")

    assert commands(*found_there, directories=("/a", "/b"))[1::2] == [
        "stratalog recover --all --salvage /a",
        "stratalog recover --all /b",
    ]


def test_a_hanging_transaction_is_ended_by_kafkas_tool() -> None:
    (abort, _) = commands(found(AuditKind.HANGING_TRANSACTION, partition="a-b-3", offset=17))

    assert abort == (
        "kafka-transactions.sh --bootstrap-server HOST:9092 abort --topic a-b --partition 3 --start-offset 17"
    )


def test_a_path_is_one_word_for_a_shell() -> None:
    hostile = "/d; rm -rf ~ `id` $(id)'"

    for command in commands(found(AuditKind.WRONG_CRC, hostile), directories=(hostile,)):
        assert shlex.split(command)[-1] == hostile


def test_words_of_a_finding_give_no_command() -> None:
    refused = found(AuditKind.WILL_NOT_START, remedy_words="Move `rm -rf ~`-0 away.")

    assert commands(refused, found(AuditKind.GAP), found(AuditKind.STRAY)) == []


def test_a_command_of_the_page_named_no_directory() -> None:
    for kind in AuditKind:
        assert "stratalog doctor" not in commands(found(kind)), kind


def test_a_record_to_look_at_is_named_by_its_file() -> None:
    assert commands(found(AuditKind.UNDECODABLE_RECORD))[0] == "stratalog dump --print-data-log /d/t-0/0.log"


@pytest.mark.parametrize("damage", MENDED, ids=lambda damage: damage.name)
def test_the_commands_mend_what_was_planted(damage: PlantedDamage, tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    damage.plant(root)
    found = AuditRequest(directories=[str(root)]).run().findings
    asked = commands(*found, directories=(str(root),))

    for command in asked:
        CliRunner().invoke(cli, shlex.split(command)[1:], catch_exceptions=False)

    left = {each.kind.value for each in AuditRequest(directories=[str(root)]).run().findings}
    assert len(asked) > 2
    assert damage.kind not in left
