"""What `doctor` says beyond the refusals of test_startup_refusals.py, and what a broker then does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stratalog import open_log
from stratalog.directory.refusal import RefusalKind
from stratalog.operations.doctor import Checkup, DoctorReport
from tests.directory.refused import META, OTHER_ID, edit
from tests.fixtures import catalog
from tests.kafka.clients import leaders
from tests.kafka.jars import KafkaJars
from tests.kafka.test_startup_refusals import PROPERTIES, AsItIs, starts
from tests.waiting import until


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


def test_a_folder_with_another_topics_id_leaves_every_partition_unserved(
    kafka_jars: KafkaJars, clean: Path
) -> None:
    shutil.copy(clean / "logappend-0" / "partition.metadata", clean / "rolled-0")
    report = checked(clean)
    assert (report.starts, report.may_start) == (True, False)
    assert [each.kind for each in report.refusals] == [RefusalKind.TOPIC_ID]

    with AsItIs(kafka_jars, clean.parent / "work", log_dirs=[clean], properties=PROPERTIES) as broker:
        until(lambda: broker.log_lines("Encountered metadata publishing fault"))
        assert broker.log_lines("InconsistentTopicIdException")


@pytest.mark.parametrize("topic", ["rolled-7", "ghost-0"])
def test_a_folder_with_another_topics_id_that_no_topic_needs(
    kafka_jars: KafkaJars, clean: Path, topic: str
) -> None:
    shutil.copytree(clean / "logappend-0", clean / topic)
    assert checked(clean).may_start

    with AsItIs(kafka_jars, clean.parent / "work", log_dirs=[clean], properties=PROPERTIES) as broker:
        broker.stop()
        assert not broker.log_lines("Encountered metadata publishing fault")


@pytest.mark.parametrize("line", [f"directory.id={OTHER_ID}\n", ""], ids=["changed", "removed"])
def test_with_another_directory_id_partitions_have_a_leader_only_from_the_second_start_on(
    kafka_jars: KafkaJars, clean: Path, line: str
) -> None:
    edit(META, "directory.id=.*\n", line)(clean)
    report = checked(clean)
    assert (report.starts, report.may_start) == (True, False)
    assert [each.kind for each in report.refusals] == [RefusalKind.DIRECTORY_ID]

    with AsItIs(kafka_jars, clean.parent / "work", log_dirs=[clean], properties=PROPERTIES) as broker:
        # On a busy machine, the controller hears of the directories before it elects the leaders.
        assert leaders(broker.bootstrap) in ({-1}, {1}, {-1, 1})
        broker.wait_for_line("AssignmentsManager")
        until(lambda: checked(clean).may_start)
        broker.restart()
        until(lambda: leaders(broker.bootstrap) == {1})


def test_a_killed_broker_leads_its_partitions_under_another_directory_id(
    kafka_jars: KafkaJars, tmp_path: Path
) -> None:
    (source,) = catalog.log_dirs("4.3.1", "killed")
    killed = Path(shutil.copytree(source, tmp_path / "data"))
    edit(META, "directory.id=.*", f"directory.id={OTHER_ID}")(killed)
    assert checked(killed).may_start

    with AsItIs(kafka_jars, tmp_path / "work", log_dirs=[killed], properties=PROPERTIES) as broker:
        until(lambda: leaders(broker.bootstrap) == {1})


def test_a_word_in_the_cleaner_s_checkpoint_ends_the_cleaner(kafka_jars: KafkaJars, clean: Path) -> None:
    (clean / "cleaner-offset-checkpoint").write_text("0\n1\nrolled 0 many\n")
    report = checked(clean)
    assert (report.starts, report.may_start) == (True, False)

    with AsItIs(kafka_jars, clean.parent / "work", log_dirs=[clean], properties=PROPERTIES) as broker:
        broker.wait_for_line("kafka-log-cleaner-thread-0.*: Error due to")
        until(lambda: leaders(broker.bootstrap) == {1})
