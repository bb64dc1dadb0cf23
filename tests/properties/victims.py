"""Every kind of file that Stratalog reads."""

from __future__ import annotations

from stratalog.directory.clean_state import NOTE
from stratalog.directory.pending_move import NOTE as MOVE
from stratalog.directory.write_journal import (
    JOURNAL,
)
from stratalog.files.names import ERASURES, QUARANTINE_MANIFEST
from tests.properties.damage import damaged_text
from tests.properties.victim import Victim, files_of
from tests.properties.victims_of_directories import (
    audits,
    checkpoints,
    journals,
    manifests,
    moves,
    notes,
    read_audit,
    read_checkpoint,
    read_clean_shutdown,
    read_damaged_meta_properties,
    read_journal,
    read_manifest,
    read_move,
    read_note,
)
from tests.properties.victims_of_segments import (
    indexes,
    read_epochs,
    read_index,
    read_partition_metadata,
    read_snapshot,
    snapshots,
    spoil_index,
    spoil_snapshot,
)
from tests.properties.victims_of_topics import (
    internal_records,
    metadata_snapshots,
    read_internal,
    read_metadata_snapshot,
    spoil_batches,
    spoil_internal,
)

VICTIMS = (
    *(
        Victim(name=suffix, share=90, healthy=indexes(suffix), read=read_index(suffix), spoil=spoil_index)
        for suffix in (".index", ".timeindex", ".txnindex")
    ),
    Victim(name=".snapshot", share=100, healthy=snapshots, read=read_snapshot, spoil=spoil_snapshot),
    Victim(
        name="leader-epoch-checkpoint",
        share=80,
        healthy=lambda: files_of("leader-epoch-checkpoint"),
        read=read_epochs,
        spoil=damaged_text,
    ),
    Victim(
        name="partition.metadata",
        share=60,
        healthy=lambda: files_of("partition.metadata"),
        read=read_partition_metadata,
        spoil=damaged_text,
    ),
    Victim(
        name="meta.properties",
        share=60,
        healthy=lambda: files_of("meta.properties"),
        read=read_damaged_meta_properties,
        spoil=damaged_text,
    ),
    *(
        Victim(name=name, share=30, healthy=checkpoints, read=read_checkpoint(name), spoil=damaged_text)
        for name in (
            "recovery-point-offset-checkpoint",
            "log-start-offset-checkpoint",
            "replication-offset-checkpoint",
            "cleaner-offset-checkpoint",
        )
    ),
    Victim(
        name=".kafka_cleanshutdown",
        share=50,
        healthy=lambda: (*files_of(".kafka_cleanshutdown"), b'{"version":0}'),
        read=read_clean_shutdown,
        spoil=damaged_text,
    ),
    Victim(name=NOTE, share=30, healthy=notes, read=read_note, spoil=damaged_text),
    Victim(name=QUARANTINE_MANIFEST, share=50, healthy=manifests, read=read_manifest, spoil=damaged_text),
    Victim(name=MOVE, share=30, healthy=moves, read=read_move, spoil=damaged_text),
    Victim(name=ERASURES, share=20, healthy=audits, read=read_audit, spoil=damaged_text),
    Victim(name=JOURNAL, share=60, healthy=journals, read=read_journal, spoil=damaged_text),
    Victim(
        name="__cluster_metadata .checkpoint",
        share=40,
        healthy=metadata_snapshots,
        read=read_metadata_snapshot,
        spoil=spoil_batches,
    ),
    Victim(
        name="records of internal topics",
        share=80,
        healthy=internal_records,
        read=read_internal,
        spoil=spoil_internal,
    ),
)
