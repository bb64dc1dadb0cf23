"""Log directories with logs of a known shape, for the commands that delete records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stratalog.config import LogConfig, ManagerConfig, ServerConfig
from stratalog.directory.topic_configs import TopicConfigs
from stratalog.files.names import TopicPartition
from stratalog.log.log import Log
from stratalog.manager.manager import LogManager
from tests.log.model import NOW, ManualClock, ManualScheduler, batch

MARKER = ".kafka_cleanshutdown"
EPOCH = 77
SET_SIZE = len(batch(b"0000", key=b"k"))
SEGMENT = {"internal.segment.bytes": 5 * SET_SIZE, "segment.index.bytes": 1000}


class Planted:
    """A directory of one node, shut down cleanly; `settings` are those for `--topic-settings`."""

    def __init__(self, root: Path, **topics: dict[str, Any]) -> None:
        self.data = root / "data"
        self.settings = root / "topics.json"
        self._topics = {name: {**SEGMENT, **settings} for name, settings in topics.items()}
        self.settings.write_text(json.dumps(self._topics))
        self._manager: LogManager

    def __enter__(self) -> Planted:
        clock = ManualClock()
        self._manager = LogManager(
            [self.data],
            server=ServerConfig(ManagerConfig(), LogConfig(), ()),
            topics=TopicConfigs(overrides=self._topics),
            clock=clock,
            scheduler=ManualScheduler(clock),
        )
        self._manager.startup()
        return self

    def __exit__(self, *_: object) -> None:
        self._manager.shutdown(EPOCH)

    def log(self, topic: str, partition: int = 0) -> Log:
        return self._manager.get_or_create_log(TopicPartition(topic, partition), is_new=True)

    def fill(
        self,
        topic: str,
        count: int,
        *,
        timestamp: int = NOW,
        keys: int = 1,
        high_watermark: int | None = None,
    ) -> Log:
        """Append `count` records, five to a segment, whose keys repeat after `keys`."""
        log = self.log(topic)
        for number in range(count):
            data = batch(b"%04d" % (log.log_end_offset), timestamp=timestamp, key=b"%d" % (number % keys))
            log.append_as_leader(data, leader_epoch=0)
        log.update_high_watermark(log.log_end_offset if high_watermark is None else high_watermark)
        return log

    def files(self, topic: str, suffix: str) -> list[str]:
        return sorted(path.name for path in (self.data / f"{topic}-0").glob(f"*{suffix}"))

    def contents(self) -> dict[str, tuple[bytes, int]]:
        """Every file with its bytes and its time, except the lock, which is empty."""
        return {
            str(path.relative_to(self.data)): (path.read_bytes(), path.stat().st_mtime_ns)
            for path in sorted(self.data.rglob("*"))
            if path.is_file() and path.name != ".lock"
        }

    def set_cleaner_checkpoint(self, **offsets: int) -> None:
        lines = "".join(f"{topic} 0 {offset}\n" for topic, offset in offsets.items())
        (self.data / "cleaner-offset-checkpoint").write_text(f"0\n{len(offsets)}\n{lines}")
