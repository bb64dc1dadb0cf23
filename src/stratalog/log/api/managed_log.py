"""A log of a `LogManager`: it has the methods that a broker needs, and those that people use."""

from __future__ import annotations

from stratalog.config import LogConfig
from stratalog.log.api.log_api import LogApi
from stratalog.log.kept_marks import KeptMarks
from stratalog.log.log import Log
from stratalog.log.parts import LogParts
from stratalog.records.compression import Codec


class ManagedLog(LogApi, Log):
    """One partition of a node. Its manager opens and closes it.

    Readers end at the high watermark. It follows the end of the log only if the manager was created with
    `high_watermark_follows_end`.
    """

    def __init__(
        self, parts: LogParts, *, config: LogConfig, recovery_point: int, kept_marks: KeptMarks | None = None
    ) -> None:
        super().__init__(parts, config=config, recovery_point=recovery_point, kept_marks=kept_marks)
        self._clock, self._codec = parts.clock, Codec.NONE

    @property
    def _below(self) -> Log:
        return self

    def _writable(self) -> Log:
        return self

    def _check_open(self) -> None:
        """Nothing to do: the methods of `Log` that read or change records check that the log is open."""

    def _refresh(self) -> None:
        """Nothing to do: an open log is always up to date."""
