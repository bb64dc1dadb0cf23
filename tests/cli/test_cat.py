"""`stratalog cat`: its options, its messages, its exit status; what it prints is in tests/questions."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from base64 import b64decode
from pathlib import Path

import pytest

import stratalog
from stratalog.cli import main
from tests.fixtures.catalog import log_dirs
from tests.jobs.reading.making import as_nobody
from tests.manager.running import contents, fixture_copy
from tests.waiting import PATIENCE_S, until

(CLEAN,) = map(str, log_dirs("4.3.1", "clean"))
COMMAND = [sys.executable, "-m", "stratalog.cli.main", "cat"]


def cat(capsys: pytest.CaptureFixture[bytes], *arguments: str, status: int = 0) -> bytes:
    assert main.run(["cat", *arguments]) == status
    return capsys.readouterr().out


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append_many([b"line %d" % number for number in range(100)])
    return tmp_path


def test_the_last_records_of_a_partition(orders: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    found = cat(capsysbinary, str(orders), "--topic", "orders", "-o", "-2")

    assert found == b"line 98\nline 99\n"


def test_a_topic_may_follow_its_directory(orders: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cat(capsysbinary, str(orders), "orders", "-c", "1") == b"line 0\n"


def test_the_directory_of_a_partition_is_enough(
    orders: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert cat(capsysbinary, str(orders / "orders-0"), "-c", "1", "-e") == b"line 0\n"


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_log_that_was_truncated_inside_a_batch_is_printed(
    tmp_path: Path, is_closed: bool, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    copy = fixture_copy("clean", tmp_path / "logs")
    with stratalog.open_log(copy / "headers-0") as log:
        end = log.end_offset
        log.truncate_to(end - 1)
    if not is_closed:
        (copy / ".kafka_cleanshutdown").unlink()

    found = cat(capsysbinary, str(copy), "headers", "-f", "%o\\n")

    assert found
    assert int(found.split()[-1]) < end - 2


def test_the_damaged_last_batch_of_a_log_that_was_not_closed_fails(tmp_path: Path) -> None:
    copy = fixture_copy("clean", tmp_path / "logs")
    (copy / ".kafka_cleanshutdown").unlink()
    log = max(copy.glob("headers-0/*.log"))
    data = log.read_bytes()
    log.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))

    assert main.run(["cat", str(copy), "headers"]) == 3


def test_formats_and_delimiters(orders: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cat(capsysbinary, str(orders), "-o", "99", "-f", "%t %o\\t%s.") == b"orders 99\tline 99."
    assert cat(capsysbinary, str(orders), "-o", "99", "-Z", "-K", ":", "-D", "|") == b"NULL:line 99|"


def test_json_is_one_object_a_line(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    found = cat(capsysbinary, CLEAN, "--topic", "__consumer_offsets", "-J")

    documents = [json.loads(line) for line in found.splitlines()]
    assert {document["topic"] for document in documents} == {"__consumer_offsets"}
    assert documents[0]["key"] == {"type": "2", "data": {"group": "classic"}}


def test_json_of_bytes_that_are_not_text_is_told_once(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    with stratalog.open_log(tmp_path / "bin-0", create=True) as log:
        for value in (b"\xff", b"text", b"\xfe", b"\xfd"):
            log.append(value)
    told = b" bytes that are not UTF-8: JSON shows them as \\xNN, and they cannot be read back. "

    assert main.run(["cat", str(tmp_path), "-J"]) == 0
    shown = capsysbinary.readouterr()
    assert [json.loads(line)["payload"] for line in shown.out.splitlines()] == [
        "\\xff",
        "text",
        "\\xfe",
        "\\xfd",
    ]
    assert shown.err == b"3 records have" + told + b"-J --base64 keeps every byte.\n"
    assert main.run(["cat", str(tmp_path), "-J", "-c", "2"]) == 0
    assert capsysbinary.readouterr().err == b"1 record has" + told + b"-J --base64 keeps every byte.\n"
    for arguments in (["-J", "--base64"], ["-J", "-o", "1", "-c", "1"], []):
        assert main.run(["cat", str(tmp_path), *arguments]) == 0
        assert capsysbinary.readouterr().err == b""


def test_base64_keeps_the_bytes_of_an_internal_topic(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    place = [CLEAN, "--topic", "__consumer_offsets"]
    sizes = cat(capsysbinary, *place, "-f", "%p %o %K %S\\n")  # of what is printed: the decoded key and value

    found = cat(capsysbinary, *place, "-J", "--base64")

    documents = [json.loads(line) for line in found.splitlines()]
    assert len(documents) == len(sizes.splitlines())
    keys = [b64decode(document["key"]) for document in documents]
    assert any(key[:2] in (b"\0\0", b"\0\1", b"\0\2") and b"classic" in key for key in keys)


def test_the_directories_are_those_of_a_server_properties(
    orders: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    properties = orders / "server.properties"
    properties.write_text(f"log.dirs={orders}\n")

    assert cat(capsysbinary, "--config", str(properties), "-c", "1") == b"line 0\n"


def test_nothing_is_changed(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    for state in ("clean", "killed"):
        root = fixture_copy(state, tmp_path / state)
        before = contents(root)

        cat(capsysbinary, str(root))
        cat(capsysbinary, str(root), "--topic", "__cluster_metadata", "--committed")

        assert contents(root) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name the log directories, or give the broker's server.properties"),
        (["nowhere"], "nowhere: there is no such directory here. For a topic or partition, also name the"),
        (["./nowhere"], "./nowhere does not exist"),
        ([__file__], "is not a directory"),
        ([CLEAN, "--topic", "roled"], "did you mean rolled?"),
        ([CLEAN, "Rolled"], "the command names Rolled, which is not in"),
        ([CLEAN, "rolled-9"], "rolled has the partition 0."),
        ([CLEAN, "-o", "ten"], "-o ten is not an offset"),
        ([CLEAN, "-f", "%z"], "the format has %z"),
        ([CLEAN, "--grep", "("], "is not a regular expression"),
        ([CLEAN, "--since", "soon"], "'soon' is not a time"),
        ([CLEAN, "--since", "1700", "-o", "5"], "both say where to start"),
        ([CLEAN, "--since", "2026-02-01", "--until", "2026-01-01"], "--since is later than --until"),
        ([CLEAN, "--follow", "-e"], "--follow never ends"),
        ([CLEAN, "--base64"], "--base64 is for -J"),
        ([CLEAN, "-J", "--base64", "-s", "utf8"], "leave out -s"),
        ([CLEAN, "-s", "header=json"], "is not key=ENCODING"),
        ([CLEAN, "-s", "xml"], "xml is not an encoding"),
        ([CLEAN, "--topic", "codecs", "-s", "value=confluent"], "the topic _schemas is not in"),
    ],
)
def test_wrong_usage_is_told(
    arguments: list[str], says: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main.run(["cat", *arguments]) == 2

    shown = capsysbinary.readouterr()
    assert says in shown.err.decode()
    assert shown.out == b""


def test_an_empty_directory_has_no_partition(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main.run(["cat", str(tmp_path)]) == 3
    assert "it is empty. Check log.dirs" in capsysbinary.readouterr().err.decode()


def test_an_offset_that_is_not_there_is_told(
    orders: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main.run(["cat", str(orders), "-o", "500"]) == 0

    shown = capsysbinary.readouterr()
    assert shown.out == b""
    assert shown.err == b"orders-0 has no offset 500: its offsets begin at 0 and end before 100.\n"


def test_damage_is_refused_or_left_out(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        for number in range(3):
            log.append(b"line %d" % number)
    file = next((tmp_path / "orders-0").glob("*.log"))
    data = file.read_bytes()
    file.write_bytes(data.replace(b"line 1", b"LINE 1"))

    assert main.run(["cat", str(tmp_path)]) == 3
    shown = capsysbinary.readouterr()
    assert b"give --skip-damage" in shown.err

    assert main.run(["cat", str(tmp_path), "--skip-damage"]) == 1
    shown = capsysbinary.readouterr()
    assert shown.out == b"line 0\nline 2\n"
    assert b"records were left out: 1 offset at most" in shown.err


def test_what_cannot_be_decoded_is_printed_as_it_is_and_told(
    orders: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main.run(["cat", str(orders), "-o", "98", "-s", "value=json"]) == 1

    shown = capsysbinary.readouterr()
    assert shown.out == b"line 98\nline 99\n"
    assert shown.err.decode() == (
        "printed as it is, because it could not be decoded: orders-0: 2 values at offsets 98 to 99: "
        "it is not JSON\n"
    )


@pytest.mark.parametrize("closed", ["", "orders-0"])
def test_a_directory_without_permission_is_told(
    orders: Path, closed: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    cat(capsysbinary, str(orders), "-c", "1")  # whatever is imported late, another user may not read
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # pytest's own folders are closed to other users
        copy = Path(shutil.copytree(orders, Path(folder) / "logs"))
        (copy / closed).chmod(0)
        with as_nobody():
            assert main.run(["cat", str(copy)]) == 3

    shown = capsysbinary.readouterr()
    assert b"Permission denied" in shown.err
    assert shown.out == b""


def test_a_directory_in_one_that_is_closed_was_a_traceback(
    orders: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    cat(capsysbinary, str(orders), "-c", "1")  # whatever is imported late, another user may not read
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        closed = Path(folder) / "closed"
        copy = Path(shutil.copytree(orders, closed / "logs"))
        closed.chmod(0)
        with as_nobody():
            assert main.run(["cat", str(copy)]) == 3

    shown = capsysbinary.readouterr()
    assert b"Permission denied" in shown.err
    assert shown.out == b""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_ends_it_though_it_follows(orders: Path, unbuffered: str) -> None:
    """An unbuffered stdout takes a part of what is written before the reader goes."""
    command = f"{' '.join(COMMAND)} {orders} --follow -D {'x' * 50_000}"
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -c 6; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    )

    assert done.stdout == "line 0141\n"
    assert done.stderr == ""


def test_printing_does_not_import_pandas(orders: Path) -> None:
    """pyarrow does that for a single scalar; it takes longer than most runs."""
    program = (
        "import sys; from stratalog.cli import main; main.run(['cat', sys.argv[1]]); "
        "sys.exit('pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(orders)], capture_output=True, timeout=PATIENCE_S, check=False
    )

    assert done.returncode == 0
    assert done.stdout.startswith(b"line 0\n")


def test_ctrl_c_ends_a_follower(orders: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, str(orders), "--follow", "-o", "99"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"line 99\n"
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 130
    assert words.strip() == b"stratalog: stopped"


def test_the_end_of_a_log_is_followed_while_it_is_written(tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append(b"old")
        with subprocess.Popen(
            [*COMMAND, str(tmp_path), "--follow", "-o", "end", "-c", "2", "-f", "%o %s\\n"],
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            found = b""
            os.set_blocking(process.stdout.fileno(), False)

            def has_come() -> bool:
                nonlocal found
                log.append(b"new")
                found += process.stdout.read() or b"" if process.stdout else b""
                return process.poll() is not None

            until(has_come)
            found += process.stdout.read() or b""

    assert process.returncode == 0
    lines = found.decode().splitlines()
    assert [line.split()[1] for line in lines] == ["new", "new"]
    assert int(lines[1].split()[0]) == int(lines[0].split()[0]) + 1
