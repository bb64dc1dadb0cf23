"""Queries that are killed and started again while a writer appends and rolls: each record once, in Parquet
files and in our sink."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import profile
from tests.spark.killing import kill_again_and_again

KILLS = profile.examples(20, quick=1, ci=1)  # a kill is between the commits of both queries and Spark's

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="kills a group of processes")


def test_every_record_is_there_once_however_often_the_queries_are_killed(
    archived: dict[str, str], tmp_path: Path
) -> None:
    kill_again_and_again(tmp_path, archived, kills=KILLS, master="local[2]")
