"""What an audit finds in the log directory itself."""

from __future__ import annotations

from pathlib import Path

from stratalog.directory.refusal import RefusalKind, StartupRefusal
from stratalog.files.names import TopicPartition
from stratalog.files.reading import DiskReader
from stratalog.operations.audit.audited_directory import look_at_directory, refusal_finding
from stratalog.operations.audit.kinds import AuditKind
from stratalog.operations.audit.partition import PartitionMarks
from tests.directory.lone import lone
from tests.manager.running import fixture_copy


def test_the_lines_of_the_checkpoints_are_the_marks_of_a_partition(tmp_path: Path) -> None:
    found = look_at_directory(DiskReader(), str(fixture_copy("clean", tmp_path / "data")))

    assert found.marks_of(TopicPartition("trimmed", 0)) == PartitionMarks(
        log_start_offset=17, recovery_point=30, high_watermark=30, cleaner_offset=None
    )
    assert found.was_closed


def test_lone_logs_that_were_closed_were_called_not_clean(tmp_path: Path) -> None:
    lone(tmp_path / "orders-0", b"a")

    assert look_at_directory(DiskReader(), str(tmp_path)).findings == []

    (tmp_path / "orders-0" / ".kafka_cleanshutdown").unlink()
    (found,) = look_at_directory(DiskReader(), str(tmp_path)).findings
    assert found.kind is AuditKind.NOT_CLEAN


def test_every_partition_and_the_metadata_log_is_a_task(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")

    found = look_at_directory(DiskReader(), str(root))

    assert {task.name for task in found.tasks} == {
        path.name for path in root.iterdir() if path.is_dir() and not path.name.endswith("-delete")
    }


def test_the_files_that_recover_and_sessions_leave_are_ours(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data", without_waiting=True)
    names = (
        "stratalog-quarantine.jsonl",
        "stratalog-quarantine-a-0-x.log-5",
        "stratalog-session.json",
        ".lock",
    )
    for name in names:
        (root / name).write_bytes(b"")
    (root / "core.1234").write_bytes(b"")

    found = look_at_directory(DiskReader(), str(root))

    assert [(each.kind.value, each.file) for each in found.findings] == [("foreign-file", "core.1234")]


def test_a_refusal_keeps_its_own_words() -> None:
    refusal = StartupRefusal(RefusalKind.FILE_NAME, "/d", "t-0/x.log", "It is odd.", "Move it.")

    finding = refusal_finding(refusal)

    assert finding is not None
    assert (finding.partition, finding.file, finding.words, finding.remedy) == (
        "t-0",
        "x.log",
        "It is odd.",
        "Move it.",
    )
    assert refusal_finding(refusal._replace(kind=RefusalKind.CHECKPOINT)) is None


def test_what_this_user_may_not_read_was_called_a_reason_not_to_start() -> None:
    refusal = StartupRefusal(RefusalKind.NOT_SEEN, "/d", "t-0", "User 7 may not read it.", "Run it as root.")

    finding = refusal_finding(refusal)

    assert finding is not None
    assert (finding.kind, finding.path) == (AuditKind.UNREADABLE, "/d/t-0")
    assert (finding.words, finding.remedy) == ("User 7 may not read it.", "Run it as root.")
