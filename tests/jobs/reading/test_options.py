"""Options are parsed once, and errors say what is wrong."""

from __future__ import annotations

import pytest

from stratalog.errors import UsageError
from stratalog.files.names import TopicPartition
from stratalog.jobs.reading.options import EARLIEST, LATEST, OnCorruption, ReadOptions

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def parse(**options: str) -> ReadOptions:
    return ReadOptions.parse({"path": "/data"} | options)


def test_without_options_everything_is_read() -> None:
    options = parse()

    assert (options.starting.mark, options.ending.mark) == (EARLIEST, LATEST)
    assert (options.topics, options.pattern, options.assigned) == (None, None, None)
    assert options.fail_on_data_loss
    assert not options.read_committed


def test_names_are_taken_in_any_case() -> None:
    assert parse(includeheaders="TRUE").include_headers


def test_a_list_of_paths_comes_as_json() -> None:
    assert ReadOptions.parse({"paths": '["/a", "/b"]'}).paths == ("/a", "/b")


def test_topics_are_separated_by_commas() -> None:
    assert parse(subscribe=" a, b,").topics == ("a", "b")


def test_assigned_partitions_come_as_json() -> None:
    assert parse(assign='{"a": [0, 1]}').assigned == (A0, A1)


def test_offsets_by_partition_come_as_json() -> None:
    assert parse(startingOffsets='{"a": {"0": 5, "1": -2}}').starting.offsets == {A0: 5, A1: -2}


def test_one_time_for_all_wins_over_a_time_for_each_and_over_offsets() -> None:
    by_time = '{"a": {"0": 7}}'

    options = parse(startingTimestamp="5", startingOffsetsByTimestamp=by_time, startingOffsets="earliest")
    assert options.starting.timestamp == 5
    assert parse(startingOffsetsByTimestamp=by_time, startingOffsets="earliest").starting.timestamps == {
        A0: 7
    }


def test_the_consumers_name_for_isolation_is_an_alias() -> None:
    assert ReadOptions.parse({"path": "/d", "kafka.isolation.level": "read_committed"}).read_committed
    assert parse(isolation="read_committed").read_committed


def test_corruption_may_be_skipped() -> None:
    assert parse(onCorruption="skip").on_corruption is OnCorruption.SKIP


def test_a_stream_begins_at_the_latest_offset() -> None:
    assert ReadOptions.parse({"path": "/d"}, streaming=True).starting.mark == LATEST


@pytest.mark.parametrize(
    ("text", "delay_ms"), [("0", 0), ("0s", 0), ("90s", 90_000), ("2 MIN", 120_000), ("7", 7)]
)
def test_a_delay_is_a_time_with_a_unit(text: str, delay_ms: int) -> None:
    options = ReadOptions.parse({"path": "/d", "maxTriggerDelay": text}, streaming=True)

    assert options.max_trigger_delay_ms == delay_ms


def test_columns_are_those_of_sparks_kafka_source() -> None:
    assert parse().columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert parse(includeHeaders="true").columns[-1] == "headers"
    assert parse(includeBatchMetadata="true").columns[7:9] == ("leaderEpoch", "producerId")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"subscrbe": "a"}, "did you mean subscribe"),
        ({"wholly-unknown": "a"}, "there are path"),
        ({"kafka.bootstrap.servers": "b:9092"}, "no client is used here"),
        ({"groupIdPrefix": "x"}, "leave it out"),
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "assign and subscribe contradict"),
        ({"subscribe": " , "}, "list of topics"),
        ({"subscribePattern": "a["}, "not a regular expression"),
        ({"subscribePattern": " "}, "subscribePattern is empty"),
        ({"assign": "[0]"}, "it must be JSON like"),
        ({"assign": '{"a": ["0"]}'}, "it must be JSON like"),
        ({"assign": "{"}, "not JSON"),
        ({"startingOffsets": "latest"}, "nothing would be read"),
        ({"endingOffsets": "earliest"}, "nothing would be read"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "not a valid offset"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "not a valid offset"),
        ({"startingOffsets": '{"a": {"x": 1}}'}, "it must be JSON like"),
        ({"startingOffsets": '{"a": 1}'}, "it must be JSON like"),
        ({"startingOffsets": '{"a": {"0": true}}'}, "it must be JSON like"),
        ({"startingTimestamp": "yesterday"}, "milliseconds since 1970"),
        ({"endingOffsetsByTimestamp": '{"a": {"0": -3}}'}, "says -3 for a-0: that is not a time"),
        ({"startingTimestamp": "8", "endingTimestamp": "7"}, "end before it begins"),
        (
            {"startingOffsets": '{"a": {"0": 8}}', "endingOffsets": '{"a": {"0": 7}}'},
            "says 8 for a-0, endingOffsets says 7",
        ),
        ({"minPartitions": "0"}, "above 0"),
        ({"maxTriggerDelay": "soon"}, "a time like"),
        ({"includeHeaders": "yes"}, "one of true, false"),
        ({"isolation": "dirty"}, "one of read_uncommitted, read_committed"),
        ({"isolation": "read_committed", "kafka.isolation.level": "read_uncommitted"}, "contradict"),
        ({"onCorruption": "ignore"}, "one of fail, skip"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says.replace("[", r"\[")):
        parse(**options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"endingOffsets": "latest"}, "a stream does not end"),
        ({"endingTimestamp": "7"}, "a stream does not end"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "is 9, more than maxOffsetsPerTrigger"),
    ],
)
def test_what_is_wrong_for_a_stream_is_said(options: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        ReadOptions.parse({"path": "/data"} | options, streaming=True)
    assert parse(**options).columns == ReadOptions.parse({"path": "/data"} | options, streaming=None).columns


def test_where_it_may_become_a_stream_latest_is_a_start() -> None:
    assert (
        ReadOptions.parse({"path": "/d", "startingOffsets": "latest"}, streaming=None).starting.mark == LATEST
    )


def test_a_read_without_a_directory_is_refused() -> None:
    with pytest.raises(UsageError, match="no directory is given"):
        ReadOptions.parse({"subscribe": "a"})
