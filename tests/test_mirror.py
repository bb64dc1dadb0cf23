"""The tests are the same tree as the source: src/stratalog/a/b.py is tested by tests/a/test_b.py."""

from __future__ import annotations

from pathlib import Path

import stratalog

SOURCE = Path(stratalog.__file__).parent
TESTS = Path(__file__).parent

# Modules without their own test file; a folder stands for all of its modules.
WITHOUT_TESTS = {
    "directory/recovery/choices.py": "one value",
    "errors": "one tree of classes: tests/test_errors.py is about all of it",
    "limits.py": "constants",
    "log/offsets.py": "two values",
    "log/origin.py": "one enum",
    "log/parts.py": "one value",
    "operations/audit/page/map.py": "one value",
    "segment/fetched.py": "two values",
    "segment/identities.py": "one value",
    "version.py": "one constant",
}

# Test files without a module of their name: what several modules do together. In tests/ itself is what holds
# for all of the source, for the documents, or for the helpers of tests.
SCENARIOS = {
    "cli/test_clean_and_damaged.py": "clean directories that were damaged, before each command",
    "cli/test_exit_status.py": "one rule for the exit status of all commands, and what a refused run leaves",
    "cli/test_manners.py": "mistakes, Ctrl-C, closed pipes and narrow terminals, before each command",
    "cli/test_questions.py": "wrong paths, permissions and pipes, before each question about records",
    "cli/test_recover_salvage.py": "`recover --salvage` on many planted damages",
    "cli/test_unreadable.py": "a partition that cannot be read, before each command",
    "directory/recovery/test_crash_sweep.py": "power cuts and refusals at every step of a recovery",
    "directory/recovery/test_split_crashes.py": "power cuts in a compaction that splits a segment",
    "directory/test_no_room.py": "a lone log with a torn end, whose cut cannot be kept beside it",
    "jobs/decoding/test_serializers.py": "confluent-kafka's serializers, through the topic of a registry",
    "jobs/reading/test_damage.py": "damaged logs, through the plan and what its tasks read",
    "jobs/reading/test_damaged_times.py": "reads by time in damaged logs, through all the ways to read",
    "jobs/reading/test_omitted.py": "what damage and loss leave out, through the plan and its tasks",
    "jobs/reading/test_stream_losses.py": "what a stream loses while it runs",
    "jobs/writing/test_crashes.py": "power cuts at every step of a write, and who finishes it",
    "jobs/writing/test_together.py": "several writes to one directory at once",
    "log/producers/test_crashes.py": "snapshots on a disk that refuses or loses its power at any step",
    "log/test_flush_crash.py": "what was flushed, after a power cut",
    "log/test_fork.py": "an open log in a process that forks",
    "log/test_interrupts.py": "Ctrl-C at any line of a roll or a cleaning",
    "log/test_log_crash.py": "power cuts at every step of a log's life",
    "log/test_log_threads.py": "one writer and many readers",
    "log/test_reading_beside.py": "readers beside whoever replaces, truncates, deletes and moves segments",
    "log/test_signal_handlers.py": "signal handlers in the middle of what the same thread does with a log",
    "log/test_truncate_crash.py": "power cuts at every step of a truncation",
    "manager/test_flush_crashes.py": "power cuts before the first checkpoint of a manager",
    "manager/test_manager_crashes.py": "power cuts at every step of a manager's life",
    "manager/test_moving_beside.py": "moves beside who truncates, empties, deletes and appends",
    "manager/test_moving_crashes.py": "power cuts at every step of a move",
    "operations/audit/page/test_in_chromium.py": "the page of an audit in a real browser",
    "operations/erase/test_erasing_crashes.py": "a disk that fails or loses its power in an `erase`",
    "operations/test_maintaining_crashes.py": "the same of `retain` and `compact`",
    "operations/test_recover_odd_files.py": "`recover` where a pipe or a broken index is",
    "operations/test_recover_owners.py": "`recover` by another user than the owner of the files",
    "operations/test_recover_verdict.py": "what `recover` says of cuts, its own and earlier ones",
    "records/test_fixtures.py": "every partition of real brokers, through all readers and the encoder",
    "scanning/test_docs_arrow.py": "the examples of docs/arrow.md",
    "scanning/test_notebook.py": "the notebook without Spark",
    "segment/test_crashes.py": "a segment on a disk that fails, or loses its power, at every step",
    "segment/test_renames.py": "segments that are renamed, moved and deleted, beside who reads them",
    "segment/test_segment_threads.py": "a segment that one thread appends to while others flush and read it",
    "spark/test_audit.py": "the audit on Spark and on threads",
    "spark/test_avro_rules.py": "Avro's Java library beside our decoder",
    "spark/test_cluster.py": "reading, writing and streaming on a standalone cluster",
    "spark/test_connect.py": "the source and the sink under Spark Connect",
    "spark/test_demo.py": "`stratalog demo` in a process of its own",
    "spark/test_docs_scale.py": "the commands of docs/scale.md on a standalone cluster",
    "spark/test_docs_schemas.py": "the examples of docs/schemas.md",
    "spark/test_docs_spark.py": "the examples of docs/spark.md",
    "spark/test_killed.py": "queries that are killed and started again",
    "spark/test_operations.py": "other operations on Spark and on threads",
    "spark/test_operations_killed.py": "operations on a cluster whose processes are killed",
    "spark/test_recover.py": "a recovery on Spark and on threads",
    "spark/test_schemas.py": "values with the ids of their schemas, in frames, queries, exports and streams",
    "spark/test_notebook.py": "the notebook with Spark",
    "spark/test_scan.py": "the source beside `stratalog.scan`",
    "spark/test_source_kafka.py": "our source beside Spark's Kafka source",
    "spark/test_source_reused.py": "a frame that is used again after a broker has changed its log",
    "spark/test_sql.py": "`stratalog sql` as users ask it",
}


def folder_of(name: str) -> str:
    return name.rpartition("/")[0]


def names(root: Path, pattern: str) -> list[str]:
    return sorted(file.relative_to(root).as_posix() for file in root.rglob(pattern))


def file_for(module: str) -> str:
    folder, _, file = module.rpartition("/")
    return f"{folder}/test_{file}".lstrip("/")


MODULES = [name for name in names(SOURCE, "*.py") if not name.endswith("__init__.py")]
PACKAGES = {folder_of(name) for name in MODULES} - {""}
# Other folders have tests of a kind: against a real Kafka, with generated input, with lives of whole logs.
TEST_FILES = [name for name in names(TESTS, "test_*.py") if folder_of(name) in PACKAGES]


def test_each_module_has_a_test_file_of_its_name() -> None:
    missing = {
        f"src/stratalog/{module}": f"tests/{file_for(module)}"
        for module in MODULES
        if not {module, folder_of(module)} & {*WITHOUT_TESTS} and not (TESTS / file_for(module)).exists()
    }

    assert missing == {}, (
        "Each of these modules needs this test file: move the tests that are about the module there. "
        "Only a module with nothing to test goes to WITHOUT_TESTS, with the reason."
    )


def test_each_test_file_has_a_module_of_its_name() -> None:
    tested = {file_for(module) for module in MODULES}
    stray = [f"tests/{name}" for name in TEST_FILES if name not in tested and name not in SCENARIOS]

    assert stray == [], (
        "No module has the name of these test files: name them for the module they test, or split them. "
        "Only what several modules do together goes to SCENARIOS, with the reason."
    )


def test_each_exception_is_still_one() -> None:
    needless = [module for module in WITHOUT_TESTS if (TESTS / file_for(module)).exists()]
    gone = [module for module in WITHOUT_TESTS if not (SOURCE / module).exists()]
    gone += [name for name in SCENARIOS if not (TESTS / name).exists()]
    tested = {file_for(module) for module in MODULES}

    assert needless == []
    assert gone == []
    assert [name for name in SCENARIOS if name in tested] == []
