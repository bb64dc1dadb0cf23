"""Lines as records of a lone log: what a line may be, and which one is wrong."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import stratalog
from stratalog.errors import LogDirLockedError, UsageError
from stratalog.log.new_records import NewRecord
from stratalog.operations.append import (
    FIRST_SIZE,
    Appending,
    AppendReport,
    ParseLine,
    json_line,
    keyed_line,
    value_of_line,
)
from stratalog.operations.report import Status
from stratalog.records.reader import read_batches
from stratalog.signals import GracefulStop
from tests.manager.running import contents, fixture_copy


def append(directory: Path, data: bytes, parse: ParseLine = value_of_line) -> AppendReport:
    return Appending(directory=str(directory), parse=parse, create=True).run(io.BytesIO(data))


def values(directory: Path) -> list[bytes | None]:
    with stratalog.open_log(directory, read_only=True) as log:
        return [record.value for record in log]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"one\ntwo", [b"one", b"two"]),
        (b"\n\n", [b"", b""]),
        (b"a\r\n\xff\0\n", [b"a\r", b"\xff\0"]),
    ],
)
def test_each_line_is_a_value(tmp_path: Path, data: bytes, expected: list[bytes]) -> None:
    report = append(tmp_path / "orders-0", data)

    assert values(tmp_path / "orders-0") == expected
    assert report.status is Status.FINE
    assert report.records_count == report.end_offset == len(expected)
    assert report.first_offset == (0 if expected else None)


def test_appends_go_on_where_the_log_ends(tmp_path: Path) -> None:
    append(tmp_path / "orders-0", b"one\n")

    report = append(tmp_path / "orders-0", b"two\nthree\n")

    assert (report.first_offset, report.end_offset) == (1, 3)
    assert report.verdict == "2 records were appended to orders-0, which ends at offset 3."


class Slowly:
    """An input that arrives in pieces, and notes how many records there were before each."""

    def __init__(self, directory: Path, *pieces: bytes) -> None:
        self._directory, self._pieces = directory, list(pieces)
        self.seen: list[int] = []

    def read1(self, _size: int) -> bytes:
        self.seen.append(len(values(self._directory)))
        return self._pieces.pop(0) if self._pieces else b""


def test_lines_are_appended_as_they_arrive(tmp_path: Path) -> None:
    lines = Slowly(tmp_path / "orders-0", b"one\ntw", b"", b"never read")
    Appending(directory=str(tmp_path / "orders-0"), create=True).run(io.BytesIO(b""))

    Appending(directory=str(tmp_path / "orders-0")).run(lines)

    assert lines.seen == [0, 1]
    assert values(tmp_path / "orders-0") == [b"one", b"tw"]


class Stopping:
    """An input that never ends; the stop is set while it is read."""

    def __init__(self, stop: GracefulStop, *pieces: bytes) -> None:
        self._stop, self._pieces = stop, list(pieces)

    def read1(self, _size: int) -> bytes:
        piece = self._pieces.pop(0)
        if not self._pieces:
            self._stop.set()
        return piece


def test_a_stop_dropped_the_lines_that_had_been_read(tmp_path: Path) -> None:
    stop = GracefulStop()
    asked = Appending(directory=str(tmp_path / "orders-0"), create=True)

    report = asked.run(Stopping(stop, b"one\n", b"two\nthree\nhal"), stop)

    assert values(tmp_path / "orders-0") == [b"one", b"two", b"three"]
    assert report.is_stopped
    assert report.verdict == "Stopped: 3 records were appended to orders-0, which ends at offset 3."
    assert report.to_document()["is_stopped"] is True


def test_the_first_lines_do_not_wait_for_the_kernels_of_large_batches(tmp_path: Path) -> None:
    append(tmp_path / "orders-0", b"y\n" * 30_000)

    data = (tmp_path / "orders-0" / f"{0:020d}.log").read_bytes()
    sizes = [batch.header.records_count for batch in read_batches(data)]
    assert sizes[0] <= FIRST_SIZE // 16
    assert sum(sizes) == 30_000
    assert len(sizes) == 2


def test_a_line_that_comes_in_pieces_is_one(tmp_path: Path) -> None:
    lines = Slowly(tmp_path / "orders-0", b"o", b"n", b"e\nt", b"wo\n")
    Appending(directory=str(tmp_path / "orders-0"), create=True).run(io.BytesIO(b""))

    Appending(directory=str(tmp_path / "orders-0")).run(lines)

    assert values(tmp_path / "orders-0") == [b"one", b"two"]


def test_a_line_has_a_key_and_a_value() -> None:
    parse = keyed_line(b"::")

    assert parse(b"k::v::w") == NewRecord(b"v::w", b"k")
    assert parse(b"::") == NewRecord(b"", b"")
    assert keyed_line(b":", empty_is_null=True)(b"k:") == NewRecord(None, b"k")


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (b'{"payload": "v"}', NewRecord(b"v")),
        (b'{"value": "v", "key": "k"}', NewRecord(b"v", b"k")),
        (b'{"payload": null, "key": "gone"}', NewRecord(None, b"gone")),
        (b'{"payload": {"a": [1, "\xc3\xa9"]}}', NewRecord(b'{"a":[1,"\xc3\xa9"]}')),
        (
            b'{"topic": "t", "offset": 7, "tstype": "create", "ts": 1700, "headers": ["a", "1", "n", null]}',
            NewRecord(None, None, (("a", b"1"), ("n", None)), 1700),
        ),
        (
            b'{"encoding": "base64", "headers": ["h", "/w==", "n", null], "key": "//4=", "payload": ""}',
            NewRecord(b"", b"\xff\xfe", (("h", b"\xff"), ("n", None))),
        ),
        (b'{"payload": "v", "ts": -1}', NewRecord(b"v", timestamp=-1)),
        (b'{"encoding": null, "key": "//4=", "payload": "v"}', NewRecord(b"v", b"//4=")),
    ],
)
def test_json_has_the_names_of_cat(line: bytes, record: NewRecord) -> None:
    assert json_line(line) == record


@pytest.mark.parametrize(
    "number",
    [b"1e400", b"-1E+400", b"1.10", b"0.1234567890123456789", b"1e2", b"12345678901234567890", b"-7"],
)
def test_a_number_was_rewritten_and_a_large_one_became_infinity(number: bytes) -> None:
    written = b'{"%b":[%b,"%b",%b]}' % (number, number, number, number)

    assert json_line(b'{"key": %b, "payload": %b}' % (number, written)) == NewRecord(written, number)


def test_a_payload_of_any_depth_is_stored_or_refused_in_words() -> None:
    refused = 0
    for depth in range(1, 1500):
        payload = b"[" * depth + b"1.50" + b"]" * depth
        try:
            assert json_line(b'{"payload": %b}' % payload).value == payload
        except ValueError:
            refused += 1
    assert refused


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"payload": NaN}', "it is not JSON: NaN is not a number"),
        (b'{"payload": [-Infinity]}', "it is not JSON: -Infinity is not a number"),
        (b'{"encoding": "base64", "payload": 1.50}', "1.50 is not base64"),
        (b'{"headers": ["a", 1.50]}', "the value of a header"),
        (b'{"ts": 1.0}', "ts is not a number of milliseconds"),
        (b"", "it is not JSON"),
        (b'{"payload": ', "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"[1]", "it is not a JSON object"),
        (b'{"paylod": 1}', "'paylod' is not one of"),
        (b'{"payload": "a", "value": "b"}', "payload and value are the same"),
        (b'{"headers": ["a"]}', "headers are not a list"),
        (b'{"headers": [1, "a"]}', "the name of a header"),
        (b'{"headers": ["a", 1]}', "the value of a header"),
        (b'{"ts": "today"}', "ts is not a number"),
        (b'{"ts": true}', "ts is not a number"),
        (b'{"ts": -2}', "ts is not a number of milliseconds since 1970, or -1 for no time"),
        (b'{"encoding": "hex", "payload": "00"}', "encoding is not 'base64'"),
        (b'{"encoding": "base64", "payload": "\\\\xff"}', "is not base64"),
        (b'{"encoding": "base64", "payload": {"a": 1}}', "is not base64"),
        (b'{"payload": "\\ud800"}', "cannot be written in UTF-8"),
    ],
)
def test_what_is_wrong_with_json_is_said(line: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        json_line(line)


def test_a_wrong_line_ends_it_and_is_named(tmp_path: Path) -> None:
    report = append(tmp_path / "orders-0", b"a:1\nb:2\nwrong\nc:3\n", keyed_line(b":"))

    assert values(tmp_path / "orders-0") == [b"1", b"2"]
    assert report.status is Status.FINDINGS
    assert report.bad_line == (3, "it has no ':' after a key")
    assert report.verdict == (
        "Line 3 is wrong: it has no ':' after a key. 2 records were appended to orders-0, which ends at "
        "offset 2."
    )
    assert report.to_document()["bad_line"] == {"number": 3, "reason": "it has no ':' after a key"}


def test_a_line_that_is_too_large_ends_it_and_is_named(tmp_path: Path) -> None:
    report = append(tmp_path / "orders-0", b"one\ntwo\n" + b"x" * (2 << 20) + b"\nthree\n")

    assert values(tmp_path / "orders-0") == [b"one", b"two"]
    assert report.bad_line is not None
    assert report.bad_line.number == 3


def test_a_refused_time_dropped_the_lines_before_it(tmp_path: Path) -> None:
    lines = b'{"payload":"a"}\n{"payload":"b"}\n{"payload":"c","ts":4102444800000}\n{"payload":"d"}\n'

    report = append(tmp_path / "orders-0", lines, json_line)

    assert values(tmp_path / "orders-0") == [b"a", b"b"]
    assert report.bad_line is not None
    assert report.bad_line.number == 3
    assert report.verdict.startswith("Line 3 is wrong: its timestamp 4102444800000 is not within [")


def test_many_lines_are_all_there(tmp_path: Path) -> None:
    lines = [b"%d " % number + b"x" * (number % 700) for number in range(5000)]

    append(tmp_path / "orders-0", b"\n".join(lines))

    assert values(tmp_path / "orders-0") == lines


def test_a_log_that_is_not_there_is_not_made_unasked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist: check the path, or create the log with --create"):
        Appending(directory=str(tmp_path / "orders-0")).run(io.BytesIO(b"one\n"))

    assert list(tmp_path.iterdir()) == []


def test_a_partition_of_a_broker_is_refused(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    before = contents(root)

    with pytest.raises(UsageError, match="append through the broker"):
        append(root / "rolled-0", b"one\n")

    assert contents(root) == before


def test_a_log_that_is_in_use_is_refused(tmp_path: Path) -> None:
    with (
        stratalog.open_log(tmp_path / "orders-0", create=True),
        pytest.raises(LogDirLockedError),
    ):
        append(tmp_path / "orders-0", b"one\n")
