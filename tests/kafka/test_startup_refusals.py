"""Kafka 4.3.1 is started on the directories that we say it refuses, and on those that we say it takes."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from stratalog.directory.startup_refusals import startup_refusals
from stratalog.files.disk import Disk
from tests import profile
from tests.directory.refused import (
    ACCEPTED,
    NOBODY,
    OUT_OF_REACH,
    REFUSED,
    Change,
    Owned,
    give_to_nobody,
    with_second,
)
from tests.fixtures import catalog
from tests.kafka.broker import Broker
from tests.kafka.clients import leaders
from tests.kafka.jars import KafkaJars
from tests.kafka.tools import KafkaError
from tests.waiting import until

PROPERTIES = {"log.index.size.max.bytes": "4096"}
CHOSEN = [
    "meta.properties missing",
    "lost+found",
    "a partition twice",
    "recovery-point-offset-checkpoint zeroed",
    "partition.metadata empty",
    "a file foo.log",
    "quorum-state.tmp that is a folder",
    "a partition that is a file",
    "a partition that is a link to nowhere",
    "metadata that is a link to nowhere",
]
REFUSED_HERE = REFUSED if profile.current() == profile.DEEP else {name: REFUSED[name] for name in CHOSEN}
TAKEN = ["quorum-state.tmp that is an empty folder", "a file 1.log"]
TAKEN_HERE = ACCEPTED if profile.current() == profile.DEEP else {name: ACCEPTED[name] for name in TAKEN}
OWNED = [
    "rolled-0/00000000000000000000.log 644",
    "__cluster_metadata-0/00000000000000000000.log 644",
    "__cluster_metadata-0/quorum-state 600",
    "bootstrap.checkpoint 600",
]
OWNED_HERE = (
    OUT_OF_REACH if profile.current() == profile.DEEP else {name: OUT_OF_REACH[name] for name in OWNED}
)


class AsItIs(Broker):
    """A broker that formats nothing before it starts."""

    def _prepare(self, config: Path) -> None:
        pass


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    (source,) = catalog.log_dirs("4.3.1", "clean")
    return Path(shutil.copytree(source, tmp_path / "data"))


def refusals(*directories: Path) -> list[str]:
    return [found.name for found in startup_refusals(Disk(), directories)]


def starts(jars: KafkaJars, *directories: Path, run_with: Sequence[str] = ()) -> bool:
    """Whether a broker starts, and all of these directories are online."""
    work = directories[0].parent / "work"
    broker = AsItIs(jars, work, log_dirs=directories, properties=PROPERTIES, run_with=run_with)
    try:
        broker.start()
        return not broker.log_lines(r"LogDirFailureChannel")
    except KafkaError:
        return False
    finally:
        broker.close()


@pytest.mark.parametrize("change", REFUSED_HERE.values(), ids=REFUSED_HERE)
def test_a_broker_refuses_what_we_say_it_does(kafka_jars: KafkaJars, clean: Path, change: Change) -> None:
    change.make(clean)
    assert refusals(clean) == [change.name]

    assert not starts(kafka_jars, clean)


@pytest.mark.parametrize("make", TAKEN_HERE.values(), ids=TAKEN_HERE)
def test_a_broker_starts_where_we_have_no_objection(
    kafka_jars: KafkaJars, clean: Path, make: Callable[[Path], object]
) -> None:
    make(clean)
    assert refusals(clean) == []

    assert starts(kafka_jars, clean)


@pytest.mark.parametrize("how", ["as it is", "without", "of another node", "copied"])
def test_two_directories_of_one_node(kafka_jars: KafkaJars, clean: Path, how: str) -> None:
    other = with_second(clean)
    file = other / "meta.properties"
    if how == "without":
        file.unlink()
    elif how == "of another node":
        file.write_text(file.read_text().replace("node.id=1", "node.id=2"))
    elif how == "copied":
        file.write_bytes((clean / "meta.properties").read_bytes())

    assert refusals(clean, other) == ([] if how == "as it is" else ["meta.properties"])

    assert starts(kafka_jars, clean, other) == (how == "as it is")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a broker as another user")
@pytest.mark.parametrize("place", OWNED_HERE.values(), ids=OWNED_HERE)
def test_a_broker_of_another_user(kafka_jars: KafkaJars, open_folder: Path, place: Owned) -> None:
    """Started as nobody, on its own directory with one file of root in it."""
    jars = KafkaJars(release=kafka_jars.release, folder=open_folder / "jars", java=kafka_jars.java)
    shutil.copytree(kafka_jars.folder, jars.folder)
    (source,) = catalog.log_dirs("4.3.1", "clean")
    directory = Path(shutil.copytree(source, open_folder / "data"))
    (open_folder / "work").mkdir()
    give_to_nobody(open_folder)
    place.make(directory)
    assert refusals(directory) == [place.name] * place.is_refused

    as_nobody = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    assert starts(jars, directory, run_with=as_nobody) != place.is_refused


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_directory_whose_meta_properties_was_formatted_again_needs_its_old_id(
    kafka_jars: KafkaJars, clean: Path
) -> None:
    file = clean / "meta.properties"
    text = file.read_text()
    file.unlink()
    (missing,) = startup_refusals(Disk(), [clean])
    broker = AsItIs(kafka_jars, clean.parent / "work", log_dirs=[clean], properties=PROPERTIES)
    with pytest.raises(KafkaError):
        broker.start()

    cluster = text.rpartition("cluster.id=")[2].strip()
    config = clean.parent / "work" / "server.properties"
    broker.tool("storage", "format", "--ignore-formatted", "-t", cluster, "-c", str(config))

    assert refusals(clean) == ["meta.properties"]
    old_id = re.search("directory.id=.*\n", text)
    assert old_id is not None
    assert old_id[0].strip() in missing.remedy
    file.write_text(re.sub("directory.id=.*\n", old_id[0], file.read_text()))
    assert refusals(clean) == []
    broker.start()
    assert not broker.log_lines("-stray")
    until(lambda: leaders(broker.bootstrap) == {1})
    broker.close()
