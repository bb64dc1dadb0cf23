"""`recover`: brings log directories to the state of a clean shutdown, and says whether the broker may start.

`directory/recovery` does the recovery and returns a value. This module adds the answer to the operator's last
question: will a broker start here (`directory/startup_refusals.py`)? The answer depends on the directories as
they are after the run. A dry run reads them unchanged, and leaves out what the run would repair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stratalog.clock import Clock, system_clock
from stratalog.config import ServerConfig
from stratalog.directory.kind import are_brokers
from stratalog.directory.layout import Problem
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
from stratalog.directory.recovery.result import DirectoryReport, Outcome, RecoveryReport
from stratalog.directory.refusal import RefusalKind, StartupRefusal
from stratalog.directory.startup_refusals import startup_refusals
from stratalog.engine.engine import Engine
from stratalog.engine.progress import OnProgress
from stratalog.errors import UsageError
from stratalog.files.disk import Disk
from stratalog.files.names import OFFSET_CHECKPOINTS
from stratalog.files.paths import absolute_path, last_name, parent_path
from stratalog.log.recovery.facts import Cut, Finding, FindingKind
from stratalog.operations.recover_tables import recovery_document, recovery_tables
from stratalog.operations.report import Report, Status, Table, what_can_start, why_not_started

# Any crash may leave these, and any start cleans them up: nothing is lost.
_ORDINARY = (FindingKind.LEFTOVER, FindingKind.UNFINISHED_SWAP)
# A tired reader must not believe that the plan was carried out.
PLANNED = "Nothing was changed yet. After a run without --dry-run "
_LOG_ENDS = (RefusalKind.LOG_END, RefusalKind.WRONG_END, RefusalKind.START_PAST_END)
_AGAIN = "fix that, and run `stratalog recover` again"
_WITH_WORK_DIR = " with the same --work-dir"
_WITH_ALL = "run `stratalog recover --all`, which repairs that"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverOptions(RecoveryChoices):
    """The operator's options, and what is known about the broker.

    `server`, `metadata_directory`, `node_id` and `log_dirs` come from its server.properties, if that was
    given. `topic_settings` is JSON and takes precedence over the settings of the cluster.
    """

    server: ServerConfig | None = None
    topic_settings: str | None = None
    metadata_directory: str | None = None
    node_id: int | None = None
    log_dirs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverReport(Report):
    """The result of a recovery, or of its dry run, and why a broker would not start afterwards."""

    result: RecoveryReport
    refusals: tuple[StartupRefusal, ...] = ()
    is_plan: bool = False
    keeps_cuts: bool = True
    has_work_dir: bool = False
    is_brokers: bool = True

    @property
    def is_failed(self) -> bool:
        return self.result.is_failed

    @property
    def may_start(self) -> bool:
        """Whether a broker starts here, with all of these directories."""
        return not self.is_failed and not self.refusals

    @property
    def cuts(self) -> tuple[Cut, ...]:
        return tuple(
            cut
            for directory in self.result.directories
            for partition in directory.partitions
            for cut in partition.cuts
        )

    @property
    def has_findings(self) -> bool:
        """Whether anything was cut off or found, except what any crash may leave and any start repairs."""
        return bool(self.result.notes) or self._has_listed_findings

    @property
    def _has_listed_findings(self) -> bool:
        """Whether a table lists any of them; the notes are in no table."""
        return any(
            any(map(_counts, directory.problems))
            or any(
                part.cuts or any(_is_found(finding, directory) for finding in part.findings)
                for part in directory.partitions
            )
            for directory in self.result.directories
        )

    @property
    def _is_cut_short(self) -> bool:
        """Whether a log ends in the middle of a batch, and is left alone because it was shut down cleanly."""
        return any(
            finding.kind is FindingKind.TORN_END
            for directory in self.result.directories
            if directory.outcome is Outcome.CLEAN
            for partition in directory.partitions
            for finding in partition.findings
        )

    @property
    def _is_left_to_all(self) -> bool:
        """Whether `--all` would repair everything: all refusals are about directories that were left
        alone."""
        clean = {found.directory for found in self.result.directories if found.outcome is Outcome.CLEAN}
        return all(refusal.is_repaired_by_all and refusal.directory in clean for refusal in self.refusals)

    @property
    def status(self) -> Status:
        if not self.may_start:
            return Status.FAILED
        return Status.FINDINGS if self.has_findings else Status.FINE

    def tables(self) -> list[Table]:
        return recovery_tables(self)

    def words(self) -> list[str]:
        failed = [
            f"{found.directory}: failed, no clean-shutdown file was written. {found.error}"
            for found in self.result.directories
            if found.error is not None
        ]
        return [*failed, *self.result.notes, *self.result.remarks]

    def totals(self) -> dict[str, int]:
        partitions = [found for directory in self.result.directories for found in directory.partitions]
        return {
            "directories": len(self.result.directories),
            "partitions": len(partitions),
            "bytes_read": sum(found.scanned_bytes for found in partitions),
            "cuts": len(self.cuts),
            "bytes_cut": sum(cut.size for cut in self.cuts)
            + sum(found.cut_before for found in self.result.directories),
            "refusals": len(self.refusals),
        }

    def to_document(self) -> dict[str, object]:
        return recovery_document(self)

    @property
    def verdict(self) -> str:
        """May the broker be started, and if not, why?"""
        words = self._verdict()
        return f"{PLANNED}{words}." if self.is_plan else f"{words[0].upper()}{words[1:]}."

    def _verdict(self) -> str:
        failed = [found.directory for found in self.result.directories if found.outcome is Outcome.FAILED]
        if failed:
            were = "was" if len(failed) == 1 else "were"
            again = _AGAIN + (_WITH_WORK_DIR if self.has_work_dir else "")
            return f"the broker must not be started yet: {', '.join(failed)} {were} not recovered; {again}"
        if self.refusals:
            advice = _WITH_ALL if self._is_left_to_all else _AGAIN
            return f"the broker must not be started yet: {why_not_started(self.refusals)}; {advice}"
        can_start = what_can_start(self.is_brokers)
        if words := self._words_on_cuts():
            return f"{can_start}{words}"
        if self._is_cut_short:
            return (
                f"{can_start}, but run `stratalog recover --all` first: a log that was shut down "
                "cleanly ends in the middle of a batch"
            )
        if self.has_findings:
            what = "findings" if self._has_listed_findings else "note"
            return f"{can_start}: nothing is cut off, but read the {what}"
        return f"{can_start}: nothing is lost"

    def _words_on_cuts(self) -> str:
        """What this run and earlier ones have cut off, and how much of it is kept; empty if nothing is."""
        found = self.result.directories
        own = sum(cut.size for cut in self.cuts)
        size = own + sum(each.cut_before for each in found)
        kept = (own if self.keeps_cuts else 0) + sum(each.kept_before for each in found)
        may_be_more = any(each.has_unknown_cuts for each in found)
        if not size:
            earlier = ", but read the findings: an earlier recovery may have cut something off"
            return earlier if may_be_more else ""
        place = "and kept in quarantine" if kept else "and not kept"
        if 0 < kept < size:
            place = f"and {kept} of them are kept in quarantine"
        whose = "its" if self.is_brokers else "the"
        more = ". An earlier recovery may have cut off more: read the findings" if may_be_more else ""
        return f": {size} bytes of {whose} logs are cut off {place}{more}"


def recover(
    directories: Sequence[str],
    options: RecoverOptions | None = None,
    *,
    engine: Engine | None = None,
    disk: Disk | None = None,
    clock: Clock = system_clock,
    on_progress: OnProgress | None = None,
) -> RecoverReport:
    """Recover all log directories of one broker, and say whether it may be started.

    `engine` scans the segments; by default threads of this process. Its workers must see the directories
    under the same paths. Only this process changes files. Raises what `recover_directories` raises if the run
    is refused; in that case nothing was changed.
    """
    options = options or RecoverOptions()
    if engine is not None:
        options = replace(options, engine=engine)
    if options.engine is not None and options.work_dir is not None:
        raise UsageError(
            "a recovery with a work directory scans in this process: only it knows which files wait there. "
            "Leave out --master, or --work-dir."
        )
    result = recover_directories(
        directories,
        disk=disk,
        clock=clock,
        server=options.server,
        topic_settings=options.topic_settings,
        metadata_directory=options.metadata_directory,
        options=options,
        on_progress=on_progress,
    )
    return assess(result, options, disk=disk)


def assess(result: RecoveryReport, options: RecoverOptions, *, disk: Disk | None = None) -> RecoverReport:
    """The result of a recovery with these options, and whether a broker starts after it."""
    by_path = {found.directory: found for found in result.directories}
    usable = [path for path, found in by_path.items() if found.outcome is not Outcome.FAILED]
    refusals = startup_refusals(
        disk or Disk(),
        usable,
        siblings=[*by_path, *(absolute_path(path) for path in options.log_dirs)],
        metadata_directory=options.metadata_directory,
        node_id=options.node_id,
        freed_sizes={
            path: found.freed_size for path, found in by_path.items() if found.outcome is Outcome.PLANNED
        },
    )
    return RecoverReport(
        result=result,
        refusals=tuple(each for each in refusals if not _will_be_repaired(each, by_path.get(each.directory))),
        is_plan=options.dry_run,
        keeps_cuts=options.keeps_cuts,
        has_work_dir=options.work_dir is not None,
        is_brokers=are_brokers(disk or Disk(), [*by_path, *options.log_dirs]),
    )


def _will_be_repaired(refusal: StartupRefusal, directory: DirectoryReport | None) -> bool:
    """Whether a run would repair what this dry run has found; `directory` is None for a metadata.log.dir."""
    if directory is None or directory.outcome is not Outcome.PLANNED:
        return False
    if refusal.kind in (RefusalKind.CHECKPOINT, RefusalKind.CLEANER, *_LOG_ENDS):
        return True
    partition = parent_path(refusal.name)
    if refusal.kind in (RefusalKind.LEADER_EPOCHS, RefusalKind.TXN_INDEX):
        return any(found.name == partition for found in directory.partitions)
    if refusal.kind is RefusalKind.OWNER:
        file = last_name(refusal.name)
        return any(
            finding.file == file and finding.kind is FindingKind.LEFTOVER
            for found in directory.partitions
            if found.name == partition
            for finding in found.findings
        )
    if refusal.kind is RefusalKind.PARTITION_METADATA:
        return any(problem.name == partition and problem.is_repaired for problem in directory.problems)
    return False


def _counts(problem: Problem) -> bool:
    return not (problem.is_repaired and problem.name in OFFSET_CHECKPOINTS)


def _is_found(finding: Finding, directory: DirectoryReport) -> bool:
    if finding.kind is FindingKind.EPOCH_FILE:
        return directory.outcome is Outcome.CLEAN  # in any other directory the checkpoint is repaired
    return finding.kind not in _ORDINARY
