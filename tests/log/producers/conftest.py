"""The producers of one partition."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.files.disk import Disk
from stratalog.log.producers.manager import ProducerStateManager
from tests.log.model import NOW
from tests.log.producing import Producers


@pytest.fixture
def state(tmp_path: Path) -> ProducerStateManager:
    return ProducerStateManager(Disk(), tmp_path, clock=lambda: NOW)


@pytest.fixture
def producers(tmp_path: Path) -> Producers:
    return Producers(tmp_path)
