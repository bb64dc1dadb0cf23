"""What `doctor` says beyond the refusals of test_startup_refusals.py, and what a broker then does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stratalog import open_log
from stratalog.operations.doctor import Checkup, DoctorReport
from tests.fixtures import catalog
from tests.kafka.jars import KafkaJars
from tests.kafka.test_startup_refusals import PROPERTIES, AsItIs, starts


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    (source,) = catalog.log_dirs("4.3.1", "clean")
    return Path(shutil.copytree(source, tmp_path / "data"))


def checked(*directories: Path) -> DoctorReport:
    return Checkup(directories=[str(directory) for directory in directories]).run()


def test_a_directory_that_was_never_formatted(kafka_jars: KafkaJars, tmp_path: Path) -> None:
    with open_log(tmp_path / "data" / "orders-0", create=True) as log:
        log.append(b"a")
    assert not checked(tmp_path / "data").may_start

    assert not starts(kafka_jars, tmp_path / "data")


def test_a_partition_that_the_cluster_lacks(kafka_jars: KafkaJars, clean: Path) -> None:
    with open_log(clean.with_name("lone") / "orders-0", create=True) as log:
        log.append(b"a")
    shutil.copytree(clean.with_name("lone") / "orders-0", clean / "orders-0")
    told = checked(clean)
    assert told.may_start
    assert [stray.path for stray in told.strays] == [str(clean / "orders-0")]

    with AsItIs(kafka_jars, clean.parent / "work", log_dirs=[clean], properties=PROPERTIES) as broker:
        assert [path.name[:8] for path in clean.glob("*-stray")] == ["orders-0"]
        assert checked(clean).states[0].is_in_use
        broker.stop()
    assert checked(clean).status == 0
