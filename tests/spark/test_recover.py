"""A recovery whose segments Spark scans leaves the bytes, and the report, of one on threads."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from stratalog.cli.main import run as run_command
from stratalog.spark.engine import SparkEngine
from tests import profile
from tests.directory.recovery.recovering import copy_of, files_of
from tests.fixtures.catalog import log_dirs
from tests.operations.recovering import left_by

# tests/kafka/test_on_spark.py has as many, of brokers that were killed while they wrote.
CASES = 60


def damaged(root: Path, seed: int) -> Path:
    """A killed broker's directory with up to five damages, and without some of its checkpoints."""
    random = Random(seed)
    source = random.choice([each for each in log_dirs() if each.parent.name == "killed"])
    home = Path(shutil.copytree(source, root / "data"))
    for _ in range(random.randrange(1, 6)):
        file = random.choice(sorted(home.rglob("0*.*")))
        data = bytearray(file.read_bytes())
        match random.randrange(4):
            case 0:
                data = data[: random.randrange(len(data) + 1)]
            case 1 if data:
                data[random.randrange(len(data))] ^= 1 << random.randrange(8)
            case 2:
                data += bytes(random.randrange(1, 300))
            case _:
                data += data[-random.randrange(1, 100) :]
        file.write_bytes(data)
    if random.random() < 0.5:
        (home / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    return home


@pytest.mark.parametrize("seed", range(profile.examples(CASES, quick=2, ci=4)))
def test_spark_leaves_the_bytes_of_threads(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    options = {"scan_all": seed % 2 == 0, "salvage": seed % 4 == 3}
    (tmp_path / "here").mkdir()
    here = damaged(tmp_path / "here", seed)
    there = Path(shutil.copytree(here, tmp_path / "there" / "data"))

    by_threads = left_by(None, tmp_path / "here", [here], **options)
    by_spark = left_by(SparkEngine(spark), tmp_path / "there", [there], **options)

    assert by_spark == by_threads


def test_a_dry_run_on_spark_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    home = damaged(tmp_path, 3)
    before = files_of(home)

    left_by(SparkEngine(spark), tmp_path, [home], dry_run=True, scan_all=True)

    assert files_of(home) == before


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("options", [["--readers", "2"], ["--work-dir", "."]])
def test_what_only_this_process_can_do_is_refused_with_a_master(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    """With a session that runs, as one is started before the second option is looked at."""
    home = copy_of("killed", tmp_path / "data")
    before = files_of(home)

    assert run_command(["recover", str(home), "--master", "local[1]", *options]) == 2

    assert "--master" in capsys.readouterr().err
    assert files_of(home) == before
