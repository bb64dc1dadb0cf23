"""Sessions over test directories."""

from __future__ import annotations

from pathlib import Path

from stratalog.directory.session import Session, Unclean, open_session


def session_of(*directories: Path, unclean: Unclean = Unclean.REFUSE) -> Session:
    return open_session(directories, unclean=unclean)
