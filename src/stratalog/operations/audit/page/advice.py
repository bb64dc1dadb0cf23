"""The commands to run next: those that the findings' remedies name, each once, the most urgent first.

Commands are taken from our own templates and never from the text of a finding: a name on the disk may look
like a command. Names and paths are quoted for a shell.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from stratalog.files.paths import join_path
from stratalog.operations.audit.finding import AuditFinding
from stratalog.operations.audit.kinds import AuditKind, Severity

MOST_COMMANDS = 40
_COMMAND = re.compile(r"`([^`]+)`")
# Each command does what the one before it does, and more.
_RECOVERIES = (
    "stratalog recover {directory}",
    "stratalog recover --all {directory}",
    "stratalog recover --all --salvage {directory}",
)
_RECOVER, _INDEX, _DUMP = "stratalog recover ", "stratalog index ", "stratalog dump"


class NextCommand(NamedTuple):
    """A command, why to run it, how many findings recommend it, and the severity of the worst of them."""

    command: str
    words: str
    findings_count: int
    severity: Severity


def next_commands(findings: Iterable[AuditFinding], directories: Sequence[str]) -> list[NextCommand]:
    """What to run, in this order. A repair comes after its dry run, indexes after logs, a new audit last.

    Commands for the worst findings come first. If several recoveries of one directory are recommended, only
    the one that includes the others is listed: a recovery without --salvage would cut off what one with
    --salvage keeps.
    """
    found: dict[str, NextCommand] = {}
    for finding in findings:
        if finding.severity is Severity.NOTE or finding.remedy_words:
            continue
        for command in _commands_of(finding):
            new = NextCommand(command, finding.remedy, 0, finding.severity)
            known = found.get(command, new)
            found[command] = known._replace(findings_count=known.findings_count + 1)
    for directory in dict.fromkeys(each.directory for each in findings):
        _merge_recoveries(found, shlex.quote(directory))
    commands: list[NextCommand] = []
    # Indexes come last: their right content is known only when the log itself is repaired.
    in_order = sorted(found.values(), key=lambda each: each.command.startswith(_INDEX))
    for each in in_order[:MOST_COMMANDS]:
        start = next((start for start in (_RECOVER, _INDEX) if each.command.startswith(start)), None)
        if start is not None:
            rehearsal = each.command.replace(start, f"{start}--dry-run ", 1)
            commands.append(NextCommand(rehearsal, "Shows what the next command would do.", 0, Severity.NOTE))
        commands.append(each)
    if commands:
        again = shlex.join(["stratalog", "audit", *directories])
        commands.append(NextCommand(again, "Look again when everything is repaired.", 0, Severity.NOTE))
    return commands


def _commands_of(finding: AuditFinding) -> Iterator[str]:
    if finding.kind is AuditKind.HANGING_TRANSACTION:
        topic, _, partition = finding.partition.rpartition("-")
        place = ["--topic", topic, "--partition", partition, "--start-offset", str(finding.offset)]
        yield shlex.join(["kafka-transactions.sh", "--bootstrap-server", "HOST:9092", "abort", *place])
        return
    for template in _COMMAND.findall(finding.kind.rule.remedy):
        if template == _DUMP:
            path = join_path(join_path(finding.directory, finding.partition), finding.file)
            yield shlex.join([*shlex.split(_DUMP), "--print-data-log", path])
        else:
            yield template.replace("{directory}", shlex.quote(finding.directory))


def _merge_recoveries(found: dict[str, NextCommand], directory: str) -> None:
    named = [
        each for template in _RECOVERIES if (each := template.replace("{directory}", directory)) in found
    ]
    if len(named) < 2:
        return
    *less, most = named
    for command in less:
        other = found.pop(command)
        known = found[most]
        found[most] = known._replace(findings_count=known.findings_count + other.findings_count)
