"""What every operation returns: tables, sentences, totals, a verdict at the end, and a status.

A report is a value. The code that shows it (`cli/output.py`) needs nothing else from the operation. People
get the tables and the sentences, or only the totals; programs get the document. Both get the verdict.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from stratalog.operations.words import counted

if TYPE_CHECKING:
    from stratalog.directory.refusal import StartupRefusal
    from stratalog.operations.recover import RecoverReport

PLANNED = {True: " (planned, nothing was changed)", False: ""}


class Status(IntEnum):
    """How an operation went, as an exit status: a failure or refusal takes precedence over findings."""

    FINE = 0
    FINDINGS = 1
    FAILED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of text. `>` before a column's name aligns it to the right, `!` keeps its lines unbroken, and
    `=` draws a bar before each cell, which is a share such as `12.5 %`.

    `droppable` are the columns that a narrow terminal does without, least important first."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    droppable: Sequence[str] = ()


class Report(ABC):
    """The result of an operation, or of its dry run."""

    __slots__ = ()

    @property
    @abstractmethod
    def status(self) -> Status: ...

    @property
    @abstractmethod
    def verdict(self) -> str:
        """The conclusion in a sentence or two.

        For `doctor` and for operations that change directories: may the broker be started, and if not, why?
        """

    @abstractmethod
    def tables(self) -> Sequence[Table]:
        """The tables; one without rows is not shown."""

    @abstractmethod
    def words(self) -> Sequence[str]:
        """Sentences in addition to the tables: refusals, failures and notes."""

    @abstractmethod
    def totals(self) -> dict[str, int]:
        """The whole report in a few numbers, by stable names."""

    @abstractmethod
    def to_document(self) -> dict[str, object]:
        """The report as JSON values."""


def what_can_start(is_brokers: bool) -> str:
    """For verdicts: what can be done with directories in which all is well."""
    if is_brokers:
        return "the broker can be started"
    return "the logs can be opened, and `stratalog format` prepares them for a broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReport(Report):
    """The report of an operation that changes log directories; `is_plan` if it was a dry run.

    `recovery` is the report of a recovery that came first, if one was requested and needed; if it failed,
    nothing else was done. `refusals` are the reasons why a broker would refuse to start. `is_brokers`: a
    broker has used the directories.
    """

    notes: tuple[str, ...] = ()
    recovery: RecoverReport | None = None
    refusals: tuple[StartupRefusal, ...] = ()
    is_plan: bool = False
    is_brokers: bool = True

    @property
    @abstractmethod
    def failed_directories(self) -> Sequence[str]:
        """The directories in which the operation was not finished."""

    @property
    def unread_directories(self) -> Sequence[str]:
        """The directories that could not be read, so that nothing was done there."""
        return ()

    @property
    @abstractmethod
    def left_count(self) -> int:
        """How many partitions were refused or have failed."""

    @property
    @abstractmethod
    def to_recover(self) -> Sequence[str]:
        """The partitions that `recover --all` must repair first."""

    @property
    def is_failed(self) -> bool:
        """Whether a partition was refused, or anything went wrong."""
        has_failed = self.recovery is not None and self.recovery.is_failed
        return has_failed or bool(self.failed_directories or self.unread_directories or self.left_count)

    @property
    def may_start(self) -> bool:
        """Whether a broker would start here, as far as the directories show."""
        return not self.refusals and (self.recovery is None or self.recovery.may_start)

    @property
    def status(self) -> Status:
        if self.is_failed or not self.may_start:
            return Status.FAILED
        has_findings = self.recovery is not None and self.recovery.has_findings
        return Status.FINDINGS if has_findings else Status.FINE

    def tables_with(self, *tables: Table) -> list[Table]:
        """These tables, after those of a recovery if there was one, otherwise before the refusals."""
        if self.recovery is not None:
            return [*self.recovery.tables(), *tables]
        return [*tables, refusals_table(self.refusals)]

    def document_of(self, directories: Sequence[dict[str, object]]) -> dict[str, object]:
        """The report as JSON values, with a document for each directory."""
        return {
            "dry_run": self.is_plan,
            "recovery": None if self.recovery is None else self.recovery.to_document(),
            "directories": list(directories),
            "notes": list(self.notes),
            "refusals": [refusal_document(each) for each in self.refusals],
            "may_start": self.may_start,
        }

    @property
    def verdict(self) -> str:
        if self.failed_directories:
            return (
                f"The command did not finish in {', '.join(self.failed_directories)}: run it again with "
                "--recover. A broker that is started before that recovers these directories itself."
            )
        left = f"{counted(self.left_count, 'partition')} could not be worked on. " if self.left_count else ""
        if self.unread_directories:
            left += f"Nothing was done in {', '.join(self.unread_directories)}, which could not be read. "
        if self.recovery is not None:
            return left + self.recovery.verdict
        if self.refusals:
            return f"{left}The broker must not be started yet: {why_not_started(self.refusals)}."
        words = what_can_start(self.is_brokers)
        words = f"Nothing was changed: {words}" if self.is_plan else f"{words[0].upper()}{words[1:]}"
        if self.to_recover:
            advice = f"run `stratalog recover --all` first, which repairs {', '.join(self.to_recover)}"
            return f"{left}{words}, but {advice}."
        return f"{left}{words}."


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedDirectory:
    """One log directory of an operation. `error` says why the work was not finished there, or not begun."""

    directory: str
    error: str | None = None
    is_begun: bool = True

    @property
    def error_words(self) -> list[str]:
        """The error as a sentence, if there is one."""
        if self.error is None:
            return []
        what = "failed" if self.is_begun else "nothing was done"
        return [f"{self.directory}: {what}. {self.error}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoriesReport(ChangeReport):
    """The report of an operation that continues with the other directories if one fails."""

    directories: tuple[WorkedDirectory, ...]

    @property
    def failed_directories(self) -> Sequence[str]:
        return [found.directory for found in self.directories if found.error is not None and found.is_begun]

    @property
    def unread_directories(self) -> Sequence[str]:
        return [found.directory for found in self.directories if not found.is_begun]


def refusals_table(refusals: Sequence[StartupRefusal]) -> Table:
    """What keeps a broker from starting, and what to do about it."""
    return Table(
        title="What keeps a broker from starting",
        columns=["where", "what is wrong", "what to do"],
        rows=[[each.path, f"{each.reason} {each.consequence}", each.remedy] for each in refusals],
    )


def why_not_started(refusals: Sequence[StartupRefusal]) -> str:
    """The first thing that keeps a broker from starting, and the number of others."""
    known = [each for each in refusals if not each.is_unseen]
    if not known:
        more = f" and {counted(len(refusals) - 1, 'other')}" if len(refusals) > 1 else ""
        return f"this user may not read {refusals[0].path}{more}"
    # What ends the broker comes first, then what loses records, then what leaves partitions unserved, then
    # one directory.
    first = min(known, key=lambda each: (each.takes_offline, each.leaves_unserved, each.loses_records))
    more = f" and {len(refusals) - 1} more" if len(refusals) > 1 else ""
    return f"{first.cause}{more}"


def refusal_document(refusal: StartupRefusal) -> dict[str, object]:
    """One reason why a broker refuses to start, as JSON values."""
    return {
        "kind": refusal.kind.value,
        "directory": refusal.directory,
        "name": refusal.name,
        "reason": refusal.reason,
        "consequence": refusal.consequence,
        "remedy": refusal.remedy,
    }
