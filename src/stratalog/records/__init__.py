"""What is inside a .log: batches, records, codecs, columns. Buffers in, values out.

arrays           decoded rows to Arrow arrays, column by column
avro/            Avro values to Arrow, by the schemas of writer and reader
base64_text      bytes as base64, for JSON
batch            the header of a v2 batch, byte by byte
build            records or Arrow columns to batches
codecs/          gzip, snappy, lz4, zstd
columns          batches to Arrow: the one bulk decoder
compression      the records section by codec, with the rules of Kafka's readers
control          control records
few              builds batches of a few records in plain Python
internal/        records of Kafka's internal topics
internal_topics  which topics are Kafka's own
kernels/         the hot loops
legacy           v0 and v1 message sets, read only
lines            decoded rows as lines of bytes, by a format
reader           batches and records one by one
rows             batches to rows: the loop of every bulk reader
scratch          reused memory for decompressed batches
unpack           decompresses a run of batches into one array
utf8             text as Java reads it
values           builds a batch of values without keys, in one kernel
walk             goes from batch to batch, and says why it stopped
warm             compiles the kernels of this package

Not here: files. This package uses neither `files/` nor `engine/`.
"""
