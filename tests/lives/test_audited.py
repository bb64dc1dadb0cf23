"""An audit finds nothing in the logs that a life leaves when it is shut down, whatever it did before.

Lives compact, truncate, move, delete records, abort transactions, crash and recover. So this shows that every
rule of the audit knows what healthy logs may look like.
"""

from __future__ import annotations

import json

import pytest

from stratalog.directory.known_topics import TopicSources
from stratalog.engine.threads import ThreadEngine
from stratalog.operations.audit.audit import AuditRequest
from stratalog.operations.audit.kinds import Severity
from tests import profile
from tests.lives.life import Life
from tests.lives.node import DIRECTORIES, CompactingLife, MovingLife, NodeLife, QueueLife, ReplicaLife

LIVES = 1000  # of each kind, in the deep run
CHUNKS = 4


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("life_of", [NodeLife, CompactingLife, MovingLife, ReplicaLife, QueueLife])
def test_nothing_is_found_in_what_a_life_leaves(life_of: type[NodeLife], chunk: int) -> None:
    for number in range(max(1, profile.examples(LIVES, quick=4, ci=8) // CHUNKS)):
        life = life_of(chunk * LIVES + number, lambda _: None)
        life.run()
        with life.opened(life.disk, shut_down=True):
            pass

        # A replica is sent records with gaps between them, as by a leader that has lost some. A log that was
        # truncated inside a batch has a gap too, in Kafka as well.
        gaps = {str(key) for key, book in life.books.items() if book.has_gap or life_of is ReplicaLife}
        found = [each for each in found_in(life) if each[0] != "lost-offsets" or each[1] not in gaps]
        assert found == [], f"{life_of.__name__} {life.seed}"


def found_in(life: Life) -> list[tuple[str, str, str, str]]:
    settings = json.dumps({key.topic: settings for key, settings in life.settings.items()})
    report = AuditRequest(
        directories=[path for path in DIRECTORIES if life.disk.exists(path)],
        sources=TopicSources(topic_settings=settings),
        is_deep=True,
        engine=ThreadEngine(1, disk=life.disk),
        disk=life.disk,
        clock=life.clock,
    ).run()
    return [
        (finding.kind.value, finding.partition, finding.file, finding.words)
        for finding in report.findings
        if finding.severity is not Severity.NOTE and finding.kind.value != "hanging-transaction"
    ]
