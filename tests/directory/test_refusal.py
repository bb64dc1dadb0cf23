"""What follows from the reasons together: does a broker end, or go on without a directory?

tests/kafka/test_doctor.py starts a broker in such cases.
"""

from __future__ import annotations

import pytest

from stratalog.directory.refusal import RefusalKind, StartupRefusal, is_start_refused, unreadable
from stratalog.errors import DiskError
from stratalog.files.reading import DiskReader

DIRECTORIES = ["/one", "/two"]


def refusal(directory: str, *, takes_offline: bool, name: str = "x") -> StartupRefusal:
    return StartupRefusal(RefusalKind.CHECKPOINT, directory, name, "It is.", "Do.", takes_offline)


@pytest.mark.parametrize(
    ("refusals", "is_refused"),
    [
        ([], False),
        ([refusal("/two", takes_offline=False)], True),
        ([refusal("/two", takes_offline=True)], False),
        ([refusal("/one", takes_offline=True)], True),  # it has the metadata
        ([refusal("/two", takes_offline=True), refusal("/one", takes_offline=False)], True),
    ],
)
def test_a_broker_goes_on_without_a_directory_unless_it_has_the_metadata(
    refusals: list[StartupRefusal], is_refused: bool
) -> None:
    assert is_start_refused(refusals, DIRECTORIES, "/one") is is_refused


def test_a_broker_does_not_go_on_without_any_directory() -> None:
    refusals = [refusal(directory, takes_offline=True) for directory in DIRECTORIES]

    assert not is_start_refused(refusals[1:], DIRECTORIES, None)
    assert is_start_refused(refusals, DIRECTORIES, None)


def test_a_directory_whose_meta_properties_cannot_be_read_is_not_looked_at() -> None:
    unread = refusal("/two", takes_offline=True, name="meta.properties")

    assert not is_start_refused([unread, refusal("/two", takes_offline=False)], DIRECTORIES, "/one")


def test_what_cannot_be_read_takes_its_directory_offline() -> None:
    found = unreadable(DiskReader(), "/two", "x", DiskError("/two/x", "could not open it: Permission denied"))

    assert (found.kind, found.takes_offline, found.path) == (RefusalKind.UNREADABLE, True, "/two/x")
    assert found.reason == "It cannot be read: could not open it: Permission denied."


def test_what_could_not_be_seen_says_nothing_about_the_broker() -> None:
    unseen = StartupRefusal(RefusalKind.NOT_SEEN, "/one", "x", "No.", "Ask root.")

    assert not is_start_refused([unseen], DIRECTORIES, "/one")
    assert unseen.with_remedy("Move it.").remedy == "Ask root."
    assert "may or may not" in unseen.consequence


@pytest.mark.parametrize("kind", [RefusalKind.TOPIC_ID, RefusalKind.WRONG_END, RefusalKind.START_PAST_END])
def test_a_broker_that_serves_nothing_or_loses_records_has_not_refused_to_start(kind: RefusalKind) -> None:
    found = StartupRefusal(kind, "/one", "x", "It is.", "Do.")

    assert not is_start_refused([found], DIRECTORIES, "/one")
    assert is_start_refused([found, refusal("/one", takes_offline=True)], DIRECTORIES, "/one")


def test_the_cause_is_what_the_broker_does() -> None:
    serves_nothing = StartupRefusal(RefusalKind.TOPIC_ID, "/one", "x", "It is.", "Do.")
    leads_nothing = StartupRefusal(RefusalKind.DIRECTORY_ID, "/one", "x", "It is.", "Do.")
    full = StartupRefusal(RefusalKind.FULL, "/one", "", "It is.", "Do.")
    wrong = serves_nothing._replace(kind=RefusalKind.WRONG_END)
    past = serves_nothing._replace(kind=RefusalKind.START_PAST_END)

    assert [
        each.cause
        for each in (
            refusal("/two", takes_offline=True),
            refusal("/two", takes_offline=False),
            serves_nothing,
            leads_nothing,
            full,
            wrong,
            past,
        )
    ] == [
        "it takes /two offline because of /two/x",
        "it refuses to start because of /two/x",
        "it serves no partition because of /one/x",
        "it may not serve all partitions because of /one/x",
        "it has no room on the disk of /one",
        "it continues a log at a wrong offset because of /one/x",
        "it deletes a whole log because of /one/x",
    ]
