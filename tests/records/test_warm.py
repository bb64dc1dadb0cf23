"""Warming up compiles everything that reading and writing will want."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stratalog.records.kernels.jit import INTERPRETED

# What is compiled after warm() and again after use; the process must be fresh, as any test compiles too.
PROGRAM = """
import pyarrow as pa
from stratalog.records.kernels.jit import kernels
from stratalog.records.kernels.machine import MACHINE
from stratalog.records.warm import warm

def compiled():
    ready = [MACHINE.of(kernel) for kernel in kernels() if MACHINE.has(kernel)]
    return {(each.py_func.__qualname__, str(signature)) for each in ready for signature in each.signatures}

warm()
before = compiled()

from stratalog.records.build import BatchOptions, build_batches
from stratalog.records.columns import ALL_COLUMNS, read_columns
from stratalog.records.compression import Codec
from stratalog.records.reader import read_batches

headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
table = pa.table({"key": [b"k", None], "value": [None, b"v"], "timestamp": [1, 2],
                  "headers": pa.array([[{"key": "h", "value": None}], None], headers)})
for rows in (table, table.slice(1), table.drop_columns(["key", "headers"])):
    for codec in Codec:
        data = b"".join(build_batches(rows, BatchOptions(codec=codec)))
        list(read_columns(data, columns=ALL_COLUMNS))
        list(read_columns(memoryview(data), columns=["offset"]))
        list(read_columns(data, columns=["key", "value", "offset"], start_offset=1, end_offset=2))
        [list(batch) for batch in read_batches(bytearray(data))]

import numpy as np
from stratalog.records.avro.decode import AvroDecoder
from stratalog.records.avro.schema import parse_schema
from stratalog.records.kernels.memory import byte_array

schema = parse_schema('["null", "double", {"type": "array", "items": "string"}]')
decoder = AvroDecoder(schema)
rows = np.array([[0, 1, decoder.root_of(schema)]], np.int64)
decoder.decode(byte_array(bytes(1)), rows, np.zeros(1, np.int32))
print(len(before) > 10, sorted(compiled() - before))
"""


@pytest.mark.skipif(INTERPRETED, reason="NUMBA_DISABLE_JIT: nothing is compiled")
def test_nothing_is_left_to_compile() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("True []\n", "")
