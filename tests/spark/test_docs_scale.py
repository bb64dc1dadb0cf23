"""The commands of docs/scale.md for a standalone cluster run on one, over a directory that a broker left."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.cluster import Cluster

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "scale.md").read_text("utf-8")
LOGS = ROOT / "tests" / "fixtures" / "kafka-4.3.1" / "clean" / "logs"

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(not hasattr(os, "killpg"), reason="Spark's scripts are for a Unix shell"),
]


def test_the_commands_for_a_standalone_cluster_run(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    commands = [line for line in block.splitlines() if line.startswith("stratalog ")]
    shutil.copytree(LOGS, tmp_path / "kafka")
    assert len(commands) == 3

    with Cluster(tmp_path / "cluster") as cluster:
        for command in commands:
            words = command.replace("spark://first-host:7077", cluster.master)
            words = words.replace("/mnt/kafka", str(tmp_path / "kafka"))
            program = [str(Path(sys.executable).with_name("stratalog")), *words.split()[1:]]
            done = subprocess.run(
                program, cwd=tmp_path, env=cluster.environ, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, (command, done.stdout, done.stderr)
        assert min(cluster.executors()) > 0

    assert (tmp_path / "findings.parquet").exists()
