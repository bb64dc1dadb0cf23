from __future__ import annotations

from dataclasses import replace

from stratalog.config.quorum import Endpoint
from stratalog.directory.formatting.result import FormatResult
from stratalog.directory.refusal import RefusalKind, StartupRefusal
from stratalog.operations.format_report import FormatReport
from stratalog.operations.report import Status
from tests.directory.formatting.test_records import DIRECTORIES, ORDERS

RESULT = FormatResult(
    cluster_id="sEiga6BNSJaW_7X41bWJDQ",
    node_id=7,
    release="4.3",
    endpoints=(Endpoint("KRAFT", "::1", 9093),),
    directories=DIRECTORIES,
    topics=(ORDERS,),
)


def test_the_settings_are_those_that_the_node_needs() -> None:
    report = FormatReport.of(RESULT)

    assert report.status is Status.FINE
    assert report.server_properties() == {
        "process.roles": "broker,controller",
        "node.id": "7",
        "log.dirs": "/a,/b",
        "metadata.log.dir": "/meta",
        "controller.listener.names": "KRAFT",
        "controller.quorum.bootstrap.servers": "[::1]:9093",
    }


def test_voters_in_the_settings_stay_where_they_are() -> None:
    report = FormatReport.of(replace(RESULT, endpoints=()))

    assert "controller.listener.names" not in report.server_properties()


def test_a_plan_does_not_say_that_the_broker_can_be_started() -> None:
    report = FormatReport.of(replace(RESULT, cluster_id=None, is_plan=True))

    assert report.verdict == (
        "Planned, nothing was changed. The directories would be those of node 7 of the cluster (new), with "
        "1 topic."
    )
    assert not [words for words in report.words() if "retain" in words]


def test_what_keeps_a_broker_from_starting_is_the_verdict() -> None:
    refusal = StartupRefusal(RefusalKind.FOLDER, "/a", "lost+found", "This is not a partition.", "Move it.")
    report = FormatReport.of(replace(RESULT, refusals=(refusal,)))

    assert report.status is Status.FAILED
    assert report.verdict.endswith("must not be started yet: it refuses to start because of /a/lost+found.")
    assert report.tables()[-1].rows[0][0] == "/a/lost+found"
