"""A lone log with a torn end that cannot be kept beside it."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog import open_log
from stratalog.errors import DiskError, QuarantineFullError, UsageError
from tests.programs import Program

TORN = (2).to_bytes(8, "big") + (5000).to_bytes(4, "big") + b"\0\0\0\0\2" + b"only begun" * 10


def tear(directory: Path) -> Path:
    """Two records, and a third one that was only begun; the log was not closed. Returns its file."""
    with open_log(directory, create=True) as log:
        log.append(b"a")
        log.append(b"b")
    (directory / ".kafka_cleanshutdown").unlink()
    file = directory / f"{0:020d}.log"
    with file.open("ab") as end:
        end.write(TORN)
    return file


def kept(directory: Path) -> list[bytes]:
    names = [path for path in directory.iterdir() if path.name.startswith("stratalog-quarantine-")]
    return [path.read_bytes() for path in names]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(disk: Path) -> Path:
    """A file that takes all the room that is left."""
    path = disk / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
    assert os.statvfs(disk).f_bavail == 0
    return path


def test_a_log_on_a_full_disk_opens_with_its_quarantine_elsewhere(small_disk: Path, tmp_path: Path) -> None:
    file = tear(small_disk / "orders-0")
    whole = file.read_bytes()
    filler = fill(small_disk)

    with pytest.raises(QuarantineFullError, match="quarantine=DIR") as caught:
        open_log(file.parent)
    assert caught.value.free == 0
    assert file.read_bytes() == whole

    with open_log(file.parent, quarantine=tmp_path / "elsewhere" / "kept") as log:
        assert [record.value for record in log.records()] == [b"a", b"b"]
        filler.unlink()  # closing writes
        log.append(b"c")
    assert kept(tmp_path / "elsewhere" / "kept") == [TORN]


def test_a_log_opens_although_its_parent_cannot_be_written_to() -> None:
    """As another user, since root may write everywhere; its modules are loaded before."""
    program = """
import os, sys, tempfile
from pathlib import Path
import stratalog
from stratalog.errors import QuarantineError

def tear(directory):
    with stratalog.open_log(directory, create=True) as log:
        log.append(b"a")
    (directory / ".kafka_cleanshutdown").unlink()
    with (directory / f"{0:020d}.log").open("ab") as end:
        end.write(b"only begun")

with tempfile.TemporaryDirectory() as root:
    os.chmod(root, 0o755)
    base = Path(root, "data")
    base.mkdir()
    places = [base / "orders-0", base / "orders-1", Path(root, "loading-0")]
    for place in places:
        tear(place)
    elsewhere = Path(root, "elsewhere")
    elsewhere.mkdir()
    stratalog.open_log(places[2]).close()
    if os.geteuid() == 0:
        for path in [elsewhere, *places[:2], *places[0].iterdir(), *places[1].iterdir()]:
            os.chown(path, 65534, 65534)
        os.seteuid(65534)
    else:
        base.chmod(0o555)
    try:
        stratalog.open_log(places[0])
    except QuarantineError as error:
        print("quarantine=DIR" in str(error), "read_only=True" in str(error), error.path == str(base))
    print((places[0] / f"{0:020d}.log").read_bytes().endswith(b"only begun"))
    with stratalog.open_log(places[0], read_only=True) as view:
        print([record.value for record in view.records()], view.hidden.hidden_size)
    with stratalog.open_log(places[0], quarantine=elsewhere) as log:
        print([record.value for record in log.records()])
    print([path.read_bytes() for path in elsewhere.glob("stratalog-quarantine-*")])
    os.seteuid(0) if os.getuid() == 0 else base.chmod(0o755)
"""
    with Program(program) as running:
        code, lines, words = running.end()

    assert (code, words) == (0, "")
    assert lines == ["True True True", "True", "[b'a'] 10", "[b'a']", "[b'only begun']"]


def test_the_place_beside_the_log_is_left_alone_where_another_one_is_named(tmp_path: Path) -> None:
    file = tear(tmp_path / "data" / "orders-0")

    open_log(file.parent, quarantine=tmp_path / "kept").close()

    assert kept(tmp_path / "kept") == [TORN]
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["orders-0"]


def test_a_read_only_opening_says_what_it_hides(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tear(tmp_path / "orders-0")
    size = file.stat().st_size

    with caplog.at_level(logging.WARNING), open_log(file.parent, read_only=True) as view:
        assert [record.value for record in view.records()] == [b"a", b"b"]
        hidden = view.hidden

    assert hidden is not None
    assert (hidden.path, hidden.position, hidden.hidden_size) == (str(file), size - len(TORN), len(TORN))
    assert hidden.reason == f"the last batch is cut off: only {len(TORN)} bytes of it are there."
    assert str(hidden) in caplog.text
    assert file.stat().st_size == size


def test_what_hides_a_log_s_end_is_told_apart(tmp_path: Path) -> None:
    file = tear(tmp_path / "orders-0")
    whole = file.read_bytes()[: -len(TORN)]

    def reason(tail: bytes) -> str | None:
        file.write_bytes(whole + tail)
        with open_log(file.parent, read_only=True) as view:
            return None if view.hidden is None else view.hidden.reason

    assert reason(b"") is None
    assert reason(bytes(1000)) is None  # as a preallocated file has them
    assert "cannot have the length 1" in (reason(bytes(11) + b"\1" + bytes(100)) or "")
    assert "magic is 9" in (reason(bytes(10) + b"\1\0" + b"\0\0\0\0\x09" + bytes(500)) or "")


def test_a_log_that_is_open_for_writing_hides_nothing(tmp_path: Path) -> None:
    with open_log(tmp_path / "orders-0", create=True) as log:
        log.append(b"a")
        assert log.hidden is None


def test_a_quarantine_for_what_is_not_cut_is_refused(tmp_path: Path) -> None:
    tear(tmp_path / "orders-0")

    with pytest.raises(UsageError, match="is not cut"):
        open_log(tmp_path / "orders-0", read_only=True, quarantine=tmp_path / "kept")


def test_a_quarantine_that_is_a_file_is_told(tmp_path: Path) -> None:
    file = tear(tmp_path / "orders-0")
    (tmp_path / "kept").write_bytes(b"")

    with pytest.raises(DiskError, match="Not a directory"):
        open_log(file.parent, quarantine=tmp_path / "kept")
    assert file.read_bytes().endswith(TORN)
