"""Our lock and a broker's: Kafka's own FileLock in a JVM, and a running broker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog.errors import LogDirLockedError
from stratalog.files.lock import DirectoryLock, is_locked
from tests.kafka.jars import KafkaJars
from tests.kafka.java import JavaProgram


@pytest.fixture
def java(kafka_jars: KafkaJars) -> Iterator[JavaProgram]:
    with JavaProgram(kafka_jars, "DirectoryLocker") as program:
        yield program


def test_a_directory_that_java_holds_is_refused(java: JavaProgram, tmp_path: Path) -> None:
    assert java.ask(f"lock {tmp_path}") == "true"

    assert is_locked(tmp_path)
    with pytest.raises(LogDirLockedError):
        DirectoryLock(tmp_path).acquire()
    assert is_locked(tmp_path)


def test_java_is_refused_what_is_held_here(java: JavaProgram, tmp_path: Path) -> None:
    with DirectoryLock(tmp_path) as lock:
        assert java.ask(f"lock {tmp_path}") == "false"
        lock.check()

    assert java.ask(f"lock {tmp_path}") == "true"


def test_java_is_refused_although_another_descriptor_was_closed(java: JavaProgram, tmp_path: Path) -> None:
    with DirectoryLock(tmp_path):
        os.close(os.open(tmp_path / ".lock", os.O_RDONLY))
        assert is_locked(tmp_path)

        assert java.ask(f"lock {tmp_path}") == "false"


def test_asking_never_keeps_java_from_locking(java: JavaProgram, tmp_path: Path) -> None:
    (tmp_path / ".lock").write_bytes(b"")
    assert not is_locked(tmp_path)

    assert java.ask(f"lock {tmp_path}") == "true"
    assert is_locked(tmp_path)


def test_a_directory_is_taken_over_when_java_lets_go(java: JavaProgram, tmp_path: Path) -> None:
    java.ask(f"lock {tmp_path}")
    java.ask("unlock")

    assert not is_locked(tmp_path)
    with DirectoryLock(tmp_path) as lock:
        lock.check()
        assert java.ask(f"lock {tmp_path}") == "false"


def test_the_lock_of_a_killed_jvm_falls(java: JavaProgram, tmp_path: Path) -> None:
    java.ask(f"lock {tmp_path}")
    java.close()

    with DirectoryLock(tmp_path) as lock:
        lock.check()
