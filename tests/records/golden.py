"""Batches that Kafka 4.3.1 wrote, checked byte by byte against the format, and their contents."""

from __future__ import annotations

from stratalog.records.build import Record

# Two records, the second with the earlier timestamp.
TWO_RECORDS = bytes.fromhex(
    "000000000000000000000055ffffffff02e58cf1ff00000000000100000000000454c300000000000454c3ffffffffffffffff"
    "ffffffffffff0000000220000000086b6579310c76616c756531002400e1bf2202086b6579320c76616c75653200"
)
TWO_RECORDS_INSIDE = [Record(0, 283843, b"key1", b"value1"), Record(1, 1234, b"key2", b"value2")]

# The first of them as the older formats have it.
V0_MESSAGE = bytes.fromhex("00000000000000000000001875f0f41d0000000000046b6579310000000676616c756531")
V1_MESSAGE = bytes.fromhex(
    "0000000000000000000000200685b364010000000000000454c3000000046b6579310000000676616c756531"
)

# A COMMIT of producer 73, epoch 13, by a coordinator of epoch 347, in leader epoch 29.
COMMIT_MARKER = bytes.fromhex(
    "00000000000003d7000000420000001d02172b6dc800300000000000000000000003e800000000000003e8"
    "0000000000000049000dffffffff000000012000000008000000010c00000000015b00"
)
COMMIT_MARKER_INSIDE = [Record(983, 1000, b"\0\0\0\1", b"\0\0\0\0\1\x5b")]

# What compaction leaves of offsets 5 to 7 of producer 7: a header without records.
EMPTY_BATCH = bytes.fromhex(
    "000000000000000500000031000000030286bdc1fb000000000002ffffffffffffffff00000000000003e8"
    "000000000000000700000000000400000000"
)

# A tombstone of time 500 with the delete horizon 86,401,000.
TOMBSTONE = bytes.fromhex(
    "000000000000000a0000003c000000000286bbf0250040000000000000000005265fe800000000000001f4ffffffffffffffff"
    "ffffffffffff000000011400e7f7b25200026b0100"
)
TOMBSTONE_INSIDE = [Record(10, 500, b"k", None)]

# The body of a record with a null key and the headers h1 = x and h2 = null, its length before it.
RECORD_WITH_HEADERS = bytes.fromhex("2000000001027604046831027804683201")

# The cleaner's result for two v0 messages: a tombstone with the delete horizon 101,000, and a record.
CLEANED_V0_TOMBSTONE = bytes.fromhex(
    "00000000000000020000003cffffffff020d7385360040000000000000000000018a88ffffffffffffffffffffffffffffffff"
    "ffffffffffff00000001140091aa0c00046b310100"
)
CLEANED_V0_TOMBSTONE_INSIDE = [Record(2, -1, b"k1", None)]
CLEANED_V0_RECORD = bytes.fromhex(
    "00000000000000010000003bffffffff023c1961c4000000000000ffffffffffffffffffffffffffffffffffffffffffffffff"
    "ffffffffffff0000000112000000046b30026200"
)
CLEANED_V0_RECORD_INSIDE = [Record(1, -1, b"k0", b"b")]
