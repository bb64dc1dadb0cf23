"""Whatever is in a file, a dump exits with 0 or 1 and a message, and leaves the bytes unchanged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.dumps import dump, tree_hash
from tests.fixtures.catalog import log_dirs
from tests.records.strategies import damaged

FILES = [
    file
    for folder in (*log_dirs("4.3.1", "killed"), *log_dirs("2.8.2", "clean"))
    for file in sorted(folder.rglob("*"))
    if file.is_file() and 0 < file.stat().st_size < 20_000
]
FLAGS = [
    [],
    ["--deep-iteration"],
    ["--print-data-log"],
    ["--print-data-log", "--skip-record-metadata"],
    ["--offsets-decoder"],
    ["--transaction-log-decoder"],
    ["--cluster-metadata-decoder"],
    ["--value-decoder-class", "org.apache.kafka.tools.api.LongDecoder"],
    ["--index-sanity-check"],
    ["--print-data-log", "--json"],
    ["--print-data-log", "--position", "61"],
]


# One folder serves all examples of a test: each example fills it again.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.sampled_from(FILES), st.sampled_from(FLAGS), st.data())
def test_a_damaged_file_is_dumped_as_far_as_it_can_be_read(
    tmp_path: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    file: Path,
    flags: list[str],
    data: st.DataObject,
) -> None:
    folder = tmp_path / "partition"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for sibling in file.parent.glob(f"{file.name.partition('.')[0]}.*"):
        shutil.copy(sibling, folder)
    (folder / file.name).write_bytes(data.draw(damaged(file.read_bytes())))
    before = tree_hash(folder)

    dumped = dump(capsysbinary, *flags, folder / file.name)

    assert dumped.status in (0, 1)
    assert dumped.status == 0 or dumped.err
    assert tree_hash(folder) == before
    if "--json" in flags:
        assert all(json.loads(line) for line in (dumped.out + dumped.err).split("\n") if line)
