"""A finding fills in what its kind says."""

from __future__ import annotations

import re
import shlex

from stratalog.operations.audit.finding import AuditFinding
from stratalog.operations.audit.kinds import AuditKind


def test_the_remedy_names_the_directory() -> None:
    finding = AuditFinding(kind=AuditKind.MISSING_INDEX, directory="/data/kafka", words="It is missing.")

    assert "`stratalog index /data/kafka`" in finding.remedy


def test_a_command_to_copy_is_not_taken_apart_by_the_name_of_a_directory() -> None:
    """A directory with a blank or a semicolon in its name became two words, or two commands."""
    directory = "/mnt/disk 1; rm -rf ~"
    finding = AuditFinding(kind=AuditKind.MISSING_INDEX, directory=directory, words="It is missing.")

    (command,) = re.findall(r"`([^`]+)`", finding.remedy)
    assert shlex.split(command) == ["stratalog", "index", directory]


def test_own_words_replace_those_of_the_kind() -> None:
    finding = AuditFinding(
        kind=AuditKind.WILL_NOT_START, directory="/d", words="w", consequence_words="c", remedy_words="r"
    )

    assert (finding.consequence, finding.remedy) == ("c", "r")


def test_a_document_has_words_for_what_is_an_enum() -> None:
    document = AuditFinding(kind=AuditKind.ZEROS, directory="/d", words="w", position=7).to_document()

    assert (document["kind"], document["severity"], document["position"]) == ("zeros", "warning", 7)
    assert "consequence_words" not in document
