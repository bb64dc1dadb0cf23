"""The judge of crash tests notices each broken promise: a log with fewer, more or other records."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratalog.log.log import Log
from stratalog.records.build import Record
from stratalog.records.control import ControlType
from tests.lives.book import Book, Lost
from tests.log.model import NOW, Machine, ModelBatch, append_marker, batch, produced, read_all

Break = Callable[[Log, Book], None]


def rows(first: int, *values: bytes | None, key: bytes = b"k") -> tuple[Record, ...]:
    return tuple(Record(first + number, NOW, key, value) for number, value in enumerate(values))


def plain(log: Log, book: Book, *values: bytes, key: bytes = b"k") -> None:
    """A batch that is appended and noted."""
    log.append_as_leader(batch(*values, key=key), leader_epoch=0)
    book.begin_append(ModelBatch(records=rows(book.end, *values, key=key)))
    book.end_append()


def three_batches() -> tuple[Log, Book]:
    """A log of three batches, of which the first two are flushed; the start is at 1."""
    log, book = Machine().open(), Book()
    for value in (b"a", b"b", b"c"):
        plain(log, book, value)
        if value == b"b":
            log.flush()
            book.flushed(book.end)
    log.delete_records(1)
    book.begin_delete(1)
    book.end_delete(1)
    return log, book


def test_a_log_that_is_as_it_was_told_keeps_its_promises() -> None:
    log, book = three_batches()

    book.judge(log)


def other_value(log: Log) -> None:
    log.truncate_to(2)
    log.append_as_leader(batch(b"x", key=b"k"), leader_epoch=0)


def truncated(book: Book) -> None:
    book.begin_truncate(2)
    book.end_truncate(2)


def deleted(book: Book) -> None:
    book.begin_delete(2)
    book.end_delete(2)


def hole(log: Log, book: Book) -> None:
    log.truncate_to(2)
    log.append_as_follower(batch(b"d", key=b"k", base_offset=3), leader_epoch=0)
    book.begin_append(ModelBatch(records=rows(3, b"d")))
    book.end_append()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda log, _: log.truncate_to(1), "flushed"),
        (lambda log, _: log.append_as_leader(batch(b"x"), leader_epoch=0), "never appended"),
        (lambda log, _: other_value(log), "never appended"),
        (lambda _, book: truncated(book), "truncated, and is back"),
        (lambda _, book: deleted(book), "deleted for good, and are back"),
        (lambda log, _: log.delete_records(2), "never moved above"),
        (hole, "is missing, and the log goes on"),
    ],
    ids=["flushed and gone", "unknown", "other value", "truncated", "deleted", "start", "hole"],
)
def test_a_broken_promise_is_noticed(fault: Break, words: str) -> None:
    log, book = three_batches()
    fault(log, book)

    with pytest.raises(Lost, match=words):
        book.judge(log)


def test_what_was_not_flushed_may_be_gone_from_the_end() -> None:
    log, book = three_batches()
    log.truncate_to(2)

    book.judge(log)


def test_what_is_being_truncated_may_be_there_or_not() -> None:
    log, book = three_batches()
    book.begin_truncate(1)

    book.judge(log)
    log.truncate_to(2)
    book.judge(log)


def compacted(*values: bytes | None) -> Book:
    """A compacted log in which one key was written again and again, all of it flushed."""
    book = Book(is_compacted=True)
    for value in values:
        book.begin_append(ModelBatch(records=rows(book.end, value)))
        book.end_append()
    book.flushed(book.end)
    return book


def log_with(*records: Record) -> Log:
    log = Machine().open()
    for record in records:
        data = batch(record.value or b"", key=record.key, base_offset=record.offset)
        log.append_as_follower(data, leader_epoch=0)
    return log


def test_of_a_key_the_newest_record_is_enough() -> None:
    compacted(b"a", b"b").judge(log_with(*rows(1, b"b")))


def test_a_key_that_is_back_is_noticed() -> None:
    with pytest.raises(Lost, match=r"deleted at 1; 0 is back"):
        compacted(b"a", None).judge(log_with(*rows(0, b"a")))


def test_a_key_that_is_gone_is_noticed() -> None:
    with pytest.raises(Lost, match="gone"):
        compacted(b"a", b"b").judge(log_with())


def test_a_transaction_that_is_taken_for_committed_is_noticed() -> None:
    log, book = Machine().open(), Book()
    log.append_as_leader(produced(7, 0, b"a", transactional=True), leader_epoch=0)
    records = tuple(record._replace(key=None) for record in rows(0, b"a"))
    book.begin_append(ModelBatch(records=records, producer_id=7, is_transactional=True))
    book.end_append()
    append_marker(log, 7, ControlType.COMMIT)
    marker = read_all(log)[1]
    book.begin_append(ModelBatch(records=(marker,), producer_id=7, ends=ControlType.ABORT))
    book.end_append()

    with pytest.raises(Lost, match="readers of committed records"):
        book.judge(log)


def test_a_retry_that_is_written_again_is_noticed() -> None:
    log, book = Machine().open(), Book()
    data = produced(7, 0, b"a")
    log.append_as_leader(batch(b"a"), leader_epoch=0)  # without its producer, so that nobody knows it
    records = tuple(record._replace(key=None) for record in rows(0, b"a"))
    sent = ModelBatch(records=records, producer_id=7)
    book.begin_append(sent, data)
    book.end_append()

    with pytest.raises(Lost, match="appended again"):
        book.judge_retries(log, book.judge(log))


def test_a_reading_that_ends_early_is_noticed() -> None:
    _, book = three_batches()

    with pytest.raises(Lost, match="did not get"):
        book.judge_reading(list(book.records()[1:2]), book.records(), 1, 3)


@pytest.mark.parametrize("is_compacted", [True, False])
def test_a_record_may_be_gone_from_a_compacted_log_though_its_successor_was_truncated(
    is_compacted: bool,
) -> None:
    book = Book(is_compacted=is_compacted)
    older, newer = (record._replace(key=b"k") for record in rows(0, b"older", b"newer"))
    for record in (older, newer):
        book.begin_append(ModelBatch(records=(record,)))
        book.end_append()
    book.begin_truncate(newer.offset)
    book.end_truncate(newer.offset)

    if is_compacted:
        book.judge_reading([], [older], 0, 1)
    else:
        with pytest.raises(Lost, match="did not get"):
            book.judge_reading([], [older], 0, 1)


def test_a_reading_may_go_on_past_where_the_log_ended() -> None:
    _, book = three_batches()

    book.judge_reading(book.records()[1:], book.records(), 1, 2)
