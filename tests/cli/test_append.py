"""`stratalog append`: its input, its options, its exit status."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

import stratalog
from stratalog.cli import main
from stratalog.files.lock import DirectoryLock
from tests.manager.running import contents, fixture_copy
from tests.operations.test_recover_owners import as_nobody, reachable
from tests.waiting import PATIENCE_S, until

__all__ = ["reachable"]

COMMAND = [sys.executable, "-m", "stratalog.cli.main", "append"]


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """What the command reads."""
    data = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))
    return data


def values(directory: Path) -> list[bytes | None]:
    with stratalog.open_log(directory, read_only=True) as log:
        return [record.value for record in log]


def given(stdin: io.BytesIO, data: bytes) -> None:
    stdin.write(data)
    stdin.seek(0)


def test_lines_of_stdin_are_appended(
    tmp_path: Path, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    given(stdin, b"one\ntwo\n")

    assert main.run(["append", str(tmp_path / "orders-0"), "--create", "--codec", "zstd"]) == 0

    assert values(tmp_path / "orders-0") == [b"one", b"two"]
    assert capsys.readouterr().out == "2 records were appended to orders-0, which ends at offset 2.\n"


def test_with_stdin_closed_append_ended_in_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # so Python does after `stratalog append DIR <&-`

    assert main.run(["append", str(tmp_path / "orders-0"), "--create"]) == 2

    assert "standard input is closed: name a FILE, or redirect standard input." in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


def test_lines_of_a_file_are_appended(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_bytes(b"k\tv\n")

    arguments = [str(tmp_path / "orders-0"), str(tmp_path / "lines.txt"), "--create", "-K", "\\t"]
    assert main.run(["append", *arguments]) == 0

    with stratalog.open_log(tmp_path / "orders-0", read_only=True) as log:
        assert [(record.key, record.value) for record in log] == [(b"k", b"v")]


def test_what_cat_prints_can_be_appended(
    tmp_path: Path, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    with stratalog.open_log(tmp_path / "a-0", create=True) as log:
        log.append(b"one", key=b"k", headers=[("h", b"1"), ("n", None)], timestamp=1_700_000_000_000)
        log.append(None, key="é".encode(), timestamp=1_700_000_000_001)
    assert main.run(["cat", str(tmp_path / "a-0"), "-J"]) == 0
    given(stdin, capsys.readouterr().out.encode())

    assert main.run(["append", str(tmp_path / "b-0"), "--create", "-J"]) == 0

    copies = []
    for name in ("a-0", "b-0"):
        with stratalog.open_log(tmp_path / name, read_only=True) as log:
            copies.append([(each.key, each.value, each.headers, each.timestamp) for each in log])
    assert copies[0] == copies[1]


@pytest.mark.parametrize("count", [1, 3000])
def test_a_record_without_a_time_that_cat_printed_was_refused(
    tmp_path: Path, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str], count: int
) -> None:
    with stratalog.open_log(tmp_path / "a-0", create=True) as log:
        for timestamp in (-1, 5, -1):
            log.append_many([stratalog.NewRecord(b"%d" % each, None, (), timestamp) for each in range(count)])
    assert main.run(["cat", str(tmp_path / "a-0"), "-J"]) == 0
    given(stdin, capsys.readouterr().out.encode())

    assert main.run(["append", str(tmp_path / "b-0"), "--create", "-J"]) == 0

    copies = []
    for name in ("a-0", "b-0"):
        with stratalog.open_log(tmp_path / name, read_only=True) as log:
            copies.append([(each.value, each.timestamp, each.timestamp_type) for each in log])
    assert copies[0] == copies[1]
    assert [times for _, times, _ in copies[0][::count]] == [-1, 5, -1]


def test_what_cat_printed_of_bytes_that_are_not_text_became_other_bytes(
    tmp_path: Path, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    every_byte = bytes(range(256))
    with stratalog.open_log(tmp_path / "a-0", create=True, codec="zstd") as log:
        log.append(every_byte, key=b"\xff\xfe", headers=[("h", every_byte), ("n", None)], timestamp=0)
        log.append(None, key=b"", headers=[("é", b"")], timestamp=1_700_000_000_000)
        log.append(b"", key=None, timestamp=1_700_000_000_001)
        log.append(b"\\xff", key=b"one\ntwo", timestamp=1_600_000_000_000)
    assert main.run(["cat", str(tmp_path / "a-0"), "-J", "--base64"]) == 0
    printed = capsys.readouterr()
    given(stdin, printed.out.encode())

    assert main.run(["append", str(tmp_path / "b-0"), "--create", "-J"]) == 0

    copies = []
    for name in ("a-0", "b-0"):
        with stratalog.open_log(tmp_path / name, read_only=True) as log:
            copies.append([(each.offset, each.key, each.value, each.headers, each.timestamp) for each in log])
    assert copies[0] == copies[1]
    assert len(copies[0]) == 4
    assert printed.err == ""


def test_a_wrong_line_is_a_finding(
    tmp_path: Path, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    given(stdin, b'{"payload": "one"}\n{"payload": \n')

    assert main.run(["append", str(tmp_path / "orders-0"), "--create", "-J", "--json"]) == 1

    document = json.loads(capsys.readouterr().out)
    assert document["bad_line"]["number"] == 2
    assert values(tmp_path / "orders-0") == [b"one"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["orders-0", "-J", "-K", ":"], "-J already has keys"),
        (["orders-0", "-Z"], "give -K too"),
        (["orders-0", "-K", ""], "-K is empty"),
        (["orders-0"], "orders-0 does not exist: check the path, or create the log with --create"),
        (["orders", "--create"], "name it orders-0"),
        ([], "Missing argument"),
        (["orders-0", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_wrong_usage_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stdin: io.BytesIO,
    arguments: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    given(stdin, b"one\n")

    assert main.run(["append", *arguments]) == 2

    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_log_in_use_is_refused(tmp_path: Path, stdin: io.BytesIO) -> None:
    given(stdin, b"one\n")
    with stratalog.open_log(tmp_path / "orders-0", create=True):
        assert main.run(["append", str(tmp_path / "orders-0")]) == 3


def waits(pid: int) -> bool:
    """Whether a process sleeps, as it does while it waits for input."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_ctrl_c_leaves_a_log_that_was_closed_cleanly(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    with subprocess.Popen(
        [*COMMAND, str(directory), "--create"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\ntwo\n")
        process.stdin.flush()
        until(lambda: directory.exists() and len(values(directory)) == 2)
        until(lambda: waits(process.pid))  # it may still be inside the append
        process.send_signal(signal.SIGINT)
        shown, words = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 130
    assert words.strip() == b"stratalog: stopped"
    assert shown == b"Stopped: 2 records were appended to orders-0, which ends at offset 2.\n"
    assert (directory / ".kafka_cleanshutdown").exists()
    assert values(directory) == [b"one", b"two"]


def test_ctrl_c_dropped_what_a_fast_pipe_had_given(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    with (
        subprocess.Popen(["yes"], stdout=subprocess.PIPE) as source,
        subprocess.Popen(
            [*COMMAND, str(directory), "--create"],
            stdin=source.stdout,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        log = directory / f"{0:020d}.log"
        until(lambda: log.exists() and log.stat().st_size > 0)
        process.send_signal(signal.SIGINT)
        shown, words = process.communicate(timeout=PATIENCE_S)
        source.kill()

    assert process.returncode == 130
    assert words.strip() == b"stratalog: stopped"
    count = len(values(directory))
    assert count > 0
    assert (
        shown.decode()
        == f"Stopped: {count} records were appended to orders-0, which ends at offset {count}.\n"
    )


def test_an_empty_folder_became_a_log_without_create(
    tmp_path: Path, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "orders-0").mkdir()
    given(stdin, b"one\n")

    assert main.run(["append", str(tmp_path / "orders-0")]) == 2

    assert "contains no log" in capsys.readouterr().err
    assert list((tmp_path / "orders-0").iterdir()) == []


def test_a_file_in_the_place_of_the_log_is_wrong_usage(
    tmp_path: Path, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "orders-0").write_bytes(b"x")
    given(stdin, b"one\n")

    for options in ([], ["--create"]):
        assert main.run(["append", str(tmp_path / "orders-0"), *options]) == 2
        assert "orders-0 is not a directory" in capsys.readouterr().err
    assert (tmp_path / "orders-0").read_bytes() == b"x"


@pytest.mark.parametrize("is_in_use", [False, True])
def test_a_broker_s_directory_is_not_changed(
    tmp_path: Path, stdin: io.BytesIO, is_in_use: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    before = contents(data)
    given(stdin, b"one\n")

    with DirectoryLock(data) if is_in_use else nullcontext():
        assert main.run(["append", str(data / "rolled-0")]) == 2
        assert "append through the broker" in capsys.readouterr().err
        assert main.run(["append", str(data)]) == 2
        assert "This is a log directory" in capsys.readouterr().err

    assert contents(data) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_log_that_this_user_may_not_write_is_refused_in_words(
    reachable: Path, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = reachable / "orders-0"
    with stratalog.open_log(directory, create=True) as log:
        log.append(b"one")
    before = contents(directory)
    given(stdin, b"two\n")

    with as_nobody():
        assert main.run(["append", str(directory)]) == 3

    assert "Permission denied" in capsys.readouterr().err
    assert contents(directory) == before


def test_a_closed_pipe_and_no_terminal(tmp_path: Path) -> None:
    command = f"printf 'one\\ntwo\\n' | COLUMNS=60 {' '.join(COMMAND)} {tmp_path / 'orders-0'} --create"
    done = subprocess.run(
        ["bash", "-c", f"{command} | true; echo ${{PIPESTATUS[1]}}; {command}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    status, *words = done.stdout.splitlines()
    assert status in ("0", "141")
    assert done.stderr == ""
    assert words == ["2 records were appended to orders-0, which ends at offset 4."]
    assert values(tmp_path / "orders-0") == [b"one", b"two"] * 2
