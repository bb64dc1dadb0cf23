"""The hot loops, called kernels: arrays and integers in, integers out; no strings, exceptions or objects.

Also here: the modules that compile, cache and load kernels.

audit       one pass of an audit, as long as nothing is wrong
avro        Avro values into Arrow's buffers
characters  numbers and text as UTF-8 bytes, for dumps; whether bytes are UTF-8
clean       decides what compaction keeps of a run of batches, and writes it
compiling   tells a listener when kernels are compiled, or cannot be cached
crc32c      CRC-32C, and CRC-32 for old formats
decode      where each key, value and header is
encode      columns into the records of a batch
fused_crc   CRC-32C of a block by two units of the CPU
gather      keys, values and headers into Arrow's buffers
hash        SipHash of record keys
images      kernels as machine code that runs without Numba, in files and in memory
index       the rule by which indexes get entries; the search from an entry on
intrinsics  the loads and copies of `memory` as machine instructions
jit         `@kernel`: plain Python for small calls, machine code for all others
latest      the map from key hash to highest offset, for scans of the newest records
lines       lines of records by a format, for `cat`
linking     makes images of what Numba has compiled
loaded      runs kernels from images
lookup      the first record at or after a time
machine     how kernels are compiled, and where the result is kept
memory      loads and copies: what the other kernels are made of
offset_map  the cleaner's map from key hash to offset
recover     one pass over a segment: batches, indexes, producers, epochs
resync      finds batches after damage
scan        producers, transactions and epochs of a run of batches
tally       adds up amounts by key
text        lines of a dump
validate    checks on batches that are to be appended
walk        goes from batch to batch: headers, checksums, why it stopped

Not here: messages and errors, which the wrappers around the kernels make.
"""
