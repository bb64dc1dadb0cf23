"""What a worker does before it works: it compares versions, and finds a place for compiled kernels."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stratalog.errors import MissingDependencyError
from stratalog.jobs.reading.split import ReadTask
from stratalog.spark import source, workers
from stratalog.spark.session import _executor_variables
from stratalog.spark.workers import (
    MANY_OBJECTS,
    NUMBA_CACHE_VARIABLE,
    Cleanup,
    LastWords,
    prepare_worker,
    require_version,
)
from stratalog.version import __version__


def test_the_same_version_is_fine() -> None:
    require_version(__version__)


def test_another_version_is_told_with_both_and_the_cure() -> None:
    with pytest.raises(
        MissingDependencyError, match=rf"driver has stratalog 0\.0\.7.* has {__version__}.*0\.0\.7"
    ):
        require_version("0.0.7")


def test_a_task_of_another_version_is_refused_by_its_reader() -> None:
    partition = source.TaskPartition(ReadTask(splits=()), [])
    partition.version = "0.0.7"
    reader = source.StratalogReader({"path": "/d"}, source.StructType([]))

    with pytest.raises(MissingDependencyError, match=r"0\.0\.7"):
        list(reader.read(partition))


def test_a_worker_whose_connection_spark_has_closed_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for error in (BrokenPipeError("stopped"), ConnectionResetError("stopped"), ValueError("a fault")):
        try:
            raise error
        except Exception:
            LastWords().print_exc()

    said = capsys.readouterr().err
    assert "stopped" not in said
    assert "ValueError: a fault" in said
    assert LastWords().format_exc is traceback.format_exc


def test_what_survives_a_task_is_not_looked_at_after_the_next() -> None:
    kept = [[] for _ in range(2 * MANY_OBJECTS)]  # type: ignore[var-annotated]
    try:
        Cleanup().collect()

        assert gc.get_freeze_count() >= len(kept)
        assert len(gc.get_objects()) < MANY_OBJECTS
        gc.collect()  # the list above is not among its objects any more
    finally:
        gc.unfreeze()


def test_garbage_of_a_task_is_removed() -> None:
    garbage: list[object] = []
    garbage.append(garbage)
    del garbage

    try:
        assert Cleanup().collect() >= 1
    finally:
        gc.unfreeze()


def test_garbage_among_what_was_left_out_is_found_when_that_has_doubled() -> None:
    kept: list[object] = [[] for _ in range(2 * MANY_OBJECTS)]
    cleanup = Cleanup()
    found = []
    gc.freeze()  # everything else in this process
    gc.disable()
    try:
        for _ in range(5):
            found.append(cleanup.collect())
            # Each task drops a cycle that has survived a collection, and makes as many objects again.
            kept = [kept, *([] for _ in range(2 * MANY_OBJECTS))]
            kept[0].append(kept[0])  # type: ignore[attr-defined]
            kept = kept[1:]

        assert max(found) >= 2 * MANY_OBJECTS
    finally:
        gc.enable()
        gc.unfreeze()


def test_few_objects_are_not_frozen() -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    try:
        Cleanup().collect()

        assert gc.get_freeze_count() <= before
    finally:
        gc.unfreeze()


def test_the_daemon_of_a_worker_looks_for_garbage_in_our_way(spark: SparkSession) -> None:
    def names(batches):  # type: ignore[no-untyped-def]
        import pyarrow as pa

        from stratalog.spark.workers import prepare_worker

        prepare_worker()
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"name": [type(sys.modules["__main__"].gc).__name__]})

    assert spark.range(1).mapInArrow(names, "name string").first()[0] == "Cleanup"


@pytest.fixture
def nowhere_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As in a container: neither the package nor a home can be written, but a temporary folder can."""
    monkeypatch.delenv(NUMBA_CACHE_VARIABLE, raising=False)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.setattr(workers, "_has_own_place", lambda: False)
    monkeypatch.setattr(workers.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path / f"stratalog-numba-{os.getuid()}"


def test_kernels_are_kept_in_a_folder_of_the_users_own(nowhere_to_write: Path) -> None:
    prepare_worker()

    assert os.environ.pop(NUMBA_CACHE_VARIABLE) == str(nowhere_to_write)
    assert nowhere_to_write.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_write_is_not_used(nowhere_to_write: Path) -> None:
    nowhere_to_write.mkdir()
    nowhere_to_write.chmod(0o777)

    prepare_worker()

    assert NUMBA_CACHE_VARIABLE not in os.environ


def test_a_place_that_was_given_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NUMBA_CACHE_VARIABLE, "/given")

    prepare_worker()

    assert os.environ[NUMBA_CACHE_VARIABLE] == "/given"


def test_executors_keep_kernels_where_the_driver_was_told_to() -> None:
    assert _executor_variables({NUMBA_CACHE_VARIABLE: "/fast"}) == {
        "spark.executorEnv.NUMBA_CACHE_DIR": "/fast"
    }
    assert _executor_variables({}) == {}


def test_workers_find_the_package(spark: SparkSession) -> None:
    def version(batches):  # type: ignore[no-untyped-def]
        import pyarrow as pa

        import stratalog

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"version": [stratalog.__version__]})

    assert spark.range(1).mapInArrow(version, "version string").first()[0] == __version__
