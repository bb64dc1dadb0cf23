"""Whole directories with several damages each: what `recover` says about the broker, and what it does.

The dry run and the run exit alike and say the same. A broker starts after 0 and 1, and does not start where
`recover` says so.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stratalog.cli.main import run
from stratalog.operations.recover import PLANNED
from tests import profile
from tests.directory.refused import ACCEPTED, REFUSED
from tests.fixtures import catalog
from tests.kafka.jars import KafkaJars
from tests.kafka.test_startup_refusals import starts

DIRECTORIES = 100  # as many again are in test_whole_directories.py
SETTINGS = "log.index.size.max.bytes=4096\nlog.index.interval.bytes=512\n"
# Kafka takes these for segments without an index and reads the whole log again, damage that stays included.
MISNAMED = ("a file 1.log", "a file -5.log")


def test_a_broker_starts_where_recover_says_so_and_nowhere_else(
    kafka_jars: KafkaJars, tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (source,) = catalog.log_dirs("4.3.1", "killed")
    directory = Path(shutil.copytree(source, tmp_path / "data"))
    random = Random(seed)
    words = [damage_once(directory, random) for _ in range(random.randint(1, 4))]
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={directory}\nnode.id=1\n{SETTINGS}")

    planned, plan = recover(config, capsys, "--dry-run")
    status, report = recover(config, capsys)

    assert (planned, plan["may_start"]) == (status, report["may_start"]), words
    assert told(plan) == told(report), words
    if any(found["outcome"] == "failed" for found in report["directories"]):
        assert status == 3
        return  # whether a broker can do with it is not said
    assert (status == 3) == bool(report["refusals"]), words
    assert starts(kafka_jars, directory) == (status in (0, 1)), (words, status, report["verdict"])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("seed", range(profile.examples(DIRECTORIES, quick=3)))


def recover(config: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    status = run(["recover", "--config", str(config), "--json", *options])
    return status, json.loads(capsys.readouterr().out)


def told(report: dict[str, Any]) -> object:
    """The cuts and findings of a report, without the places where cuts are kept and the times."""
    verdict = report["verdict"].removeprefix(PLANNED)
    partitions = [
        (
            found["partition"],
            found["log_end_offset"],
            [(cut["file"], cut["position"], cut["first_offset"]) for cut in found["cuts"]],
            sorted((finding["kind"], finding["file"]) for finding in found["findings"]),
        )
        for directory in report["directories"]
        for found in directory["partitions"]
    ]
    problems = [problem for directory in report["directories"] for problem in directory["problems"]]
    return verdict.lower(), partitions, problems, report["refusals"], report["notes"]


def damage_once(directory: Path, random: Random) -> str:
    """One damage; returns it in words."""
    kind = random.choice(["refused", "accepted", "file", "file", "file", "checkpoint"])
    if kind == "refused":
        name = random.choice([*REFUSED])
        if (directory / "lost+found").exists() or (directory / "rolled-00").exists():
            return f"{name}, but not twice"
        try:
            REFUSED[name].make(directory)
        except (FileNotFoundError, FileExistsError, AssertionError):
            return f"{name}, which cannot be"
        return name
    if kind == "accepted":
        name = random.choice([name for name in ACCEPTED if name not in MISNAMED])
        try:
            ACCEPTED[name](directory)
        except (FileNotFoundError, FileExistsError, AssertionError):
            return f"{name}, which cannot be"
        return name
    places = directory.glob("*-0/*") if kind == "file" else directory.glob("*-checkpoint")
    files = sorted(
        path for path in places if path.is_file() and not path.parent.name.startswith("__cluster_metadata")
    )
    file = random.choice(files)
    how = random.choice([*DAMAGES])
    DAMAGES[how](file, random)
    return f"{file.relative_to(directory)} {how}"


def cut_short(file: Path, random: Random) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: random.randint(0, len(data))])


def flip(file: Path, random: Random) -> None:
    data = bytearray(file.read_bytes())
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    file.write_bytes(data)


def zero(file: Path, random: Random) -> None:
    data = file.read_bytes()
    start = random.randint(0, len(data))
    file.write_bytes(data[:start] + bytes(len(data) - start))


def add_noise(file: Path, random: Random) -> None:
    file.write_bytes(file.read_bytes() + random.randbytes(random.randint(1, 200)))


DAMAGES: dict[str, Callable[[Path, Random], object]] = {
    "deleted": lambda file, _: file.unlink(),
    "emptied": lambda file, _: file.write_bytes(b""),
    "cut short": cut_short,
    "with a bit flipped": flip,
    "zeroed to its end": zero,
    "with noise behind it": add_noise,
    "twice, as .deleted": lambda file, _: shutil.copy(file, f"{file}.deleted"),
}
