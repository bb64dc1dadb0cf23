"""Kafka 4.3.1 starts on clean directories whose logs it deletes, or continues at a wrong offset."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stratalog.directory.refusal import RefusalKind
from stratalog.operations.doctor import Checkup
from stratalog.operations.recover import RecoverOptions, recover
from tests import profile
from tests.directory.endings import BASE, END, HARMLESS, LOSING, REFUSED_END, Ending, starts_at
from tests.directory.refused import ACTIVE, Make, refusals, write
from tests.kafka.jars import KafkaJars
from tests.kafka.test_startup_refusals import PROPERTIES, AsItIs, clean, starts

__all__ = ["clean"]

IS_DEEP = profile.current() == profile.DEEP
CHOSEN = ("an index of noise", "a start past the end")
LOSING_HERE = LOSING if IS_DEEP else {name: LOSING[name] for name in CHOSEN}
HARMLESS_HERE = HARMLESS if IS_DEEP else {name: HARMLESS[name] for name in ("a preallocated index",)}


def loaded(jars: KafkaJars, directory: Path) -> tuple[int, int]:
    """Where rolled-0 starts and ends for a broker."""
    with AsItIs(jars, directory.parent / "work", log_dirs=[directory], properties=PROPERTIES) as broker:
        (line,) = broker.log_lines(r"Completed load of Log\(dir=[^,]*rolled-0,")
    found = re.search(r"logStartOffset=(\d+), logEndOffset=(\d+)", line)
    assert found is not None, line
    return int(found[1]), int(found[2])


@pytest.mark.parametrize("ending", LOSING_HERE.values(), ids=LOSING_HERE)
def test_a_broker_starts_and_loses_records(kafka_jars: KafkaJars, clean: Path, ending: Ending) -> None:
    ending.make(clean)
    assert [(each.kind, each.name) for each in refusals(clean)] == [(ending.kind, ending.name)]

    assert loaded(kafka_jars, clean) == (ending.start, ending.end)


def test_a_broker_does_not_start_over_an_index_that_leads_to_a_length_of_zero(
    kafka_jars: KafkaJars, clean: Path
) -> None:
    REFUSED_END.make(clean)
    assert [each.name for each in refusals(clean)] == [REFUSED_END.name]

    assert not starts(kafka_jars, clean)


@pytest.mark.parametrize("make", HARMLESS_HERE.values(), ids=HARMLESS_HERE)
def test_a_broker_finds_the_end_where_we_have_no_objection(
    kafka_jars: KafkaJars, clean: Path, make: Make
) -> None:
    make(clean)
    assert refusals(clean) == ()

    assert loaded(kafka_jars, clean)[1] == END


@pytest.mark.parametrize("name", CHOSEN)
def test_the_remedy_saves_the_log(kafka_jars: KafkaJars, clean: Path, name: str) -> None:
    LOSING[name].make(clean)
    if LOSING[name].kind is RefusalKind.START_PAST_END:
        starts_at(BASE - 2)(clean)
    else:
        assert recover([str(clean)], RecoverOptions(scan_all=True)).may_start
    assert refusals(clean) == ()

    assert loaded(kafka_jars, clean)[1] == END


def test_a_broker_says_nothing_about_records_that_are_gone(kafka_jars: KafkaJars, clean: Path) -> None:
    write(ACTIVE, b"")(clean)
    checked = Checkup(directories=[str(clean)]).run()
    assert (checked.status, checked.verdict) == (
        1,
        "The broker can be started. Records of 1 log are missing.",
    )

    assert loaded(kafka_jars, clean) == (0, BASE)
