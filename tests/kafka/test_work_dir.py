"""A copy in a work directory is worthless once Kafka has loaded the directory that it was made for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from stratalog.config import read_server_properties
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
from stratalog.directory.recovery.result import Outcome
from tests.directory.test_work_dir import put_down
from tests.fixtures import catalog
from tests.kafka.conftest import had
from tests.kafka.jars import KafkaJars
from tests.kafka.java import JavaProgram
from tests.kafka.tools import properties_text

BROKER = {"log.index.size.max.bytes": "4096", "log.index.interval.bytes": "512"}
ENTRY_SIZE = 8


def test_an_index_that_kafka_has_written_in_place_is_not_written_over(
    kafka_jars: KafkaJars, tmp_path: Path
) -> None:
    """Its inode is the one of before, and an index with fewer entries would pass for a sound one."""
    (source,) = catalog.log_dirs("4.3.1", "killed")
    directory, work = Path(shutil.copytree(source, tmp_path / "killed")), tmp_path / "work"
    work.mkdir()
    index = directory / "rolled-0" / "00000000000000000000.index"
    inode = index.stat().st_ino
    put_down(work, str(index), inode, index.read_bytes()[:ENTRY_SIZE])
    with had(lambda: JavaProgram(kafka_jars, "RecoveryOracle")) as kafka:
        given = {"dirs": [str(directory)], "broker": BROKER, "topics": {}, "epoch": 1}
        answer = json.loads(kafka.ask(json.dumps(given)))
    assert answer.get("offline") == [], answer
    (directory / ".kafka_cleanshutdown").unlink()  # it was killed before it could leave one
    (directory / ".lock").unlink(missing_ok=True)
    theirs = index.read_bytes()
    assert len(theirs) > ENTRY_SIZE
    assert index.stat().st_ino == inode

    (report,) = recover_directories(
        [str(directory)],
        server=read_server_properties(properties_text(BROKER)),
        options=RecoveryChoices(work_dir=str(work)),
    ).directories

    assert report.outcome is Outcome.RECOVERED, report.error
    assert index.read_bytes() == theirs
    assert not list(work.glob("stratalog-work-*"))
