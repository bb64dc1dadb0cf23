"""Avro values into Arrow's buffers, by a program that was made from the writer's and the reader's schema.

A program is a table of nodes. A node reads one thing from the bytes and adds an entry to an output column. A
node for something that the reader's schema does not have adds nothing: its column is -1. The same program
runs twice: first it checks the bytes and counts what each column needs, then it fills the columns. A value
that is not valid is null in both passes, and its code says why. There is no recursion, and no more memory is
used than was counted.

A node has an op, a column and three numbers, a, b and c. "symbols: first" is the place in `lists` at which
the symbols of this node begin; "nulls" are the columns to which the node adds a null.

op       reads                    a                 b                  c
INT      a number of 32 bits                        factor of a time
LONG     a number of 64 bits                        the same
ENUM     the number of a symbol   symbols: first    their count        code for one that the reader lacks
BYTES    a length and bytes                         1 for text
NUMERAL  the same, a decimal      limits: first
UNION    the number of a branch   nodes: first      their count
FIXED    bytes                                      how many
DIGITS   the same, a decimal      limits: first     how many
BOOLEAN  a byte, 0 or 1
FLOAT    4 bytes
DOUBLE   8 bytes
NULL     nothing                                    nulls: first       their count
MEMBER   nothing, then a node     node              nulls: first       their count
RECORD   its fields               nodes: first      their count
ARRAY    blocks of items          node of an item                      1 if items have no bytes
DEFAULT  a constant, by a node    node              constants: from    to
FAIL     nothing                  the code

A map is an array of records of a key and a value; the record itself has no column. For a
row whose whole value is null, node 0 is run: it adds a null to the columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import INT32_MAX, INT32_MIN, INT64_MAX
from stratalog.records.kernels.characters import is_utf8
from stratalog.records.kernels.decode import varlong
from stratalog.records.kernels.jit import kernel
from stratalog.records.kernels.memory import Bytes, copy_bytes, load_u8

INT, LONG, ENUM, BYTES, NUMERAL, UNION, FIXED, DIGITS, BOOLEAN, FLOAT, DOUBLE = range(11)
NULL, MEMBER, RECORD, ARRAY, DEFAULT, FAIL = range(11, 17)
OP, COLUMN, A, B, C = range(5)  # of a node
# What is in the buffer of an output column.
NOTHING, BIT, I32, I64, F32, F64, I128, VARIABLE, OFFSETS = range(9)
# Facts of an output column. ITEMS: for OFFSETS, the column whose entries they count. SIZE: for VARIABLE, in
# bytes. The last three are where the buffers begin: VALUES in units of their own width, VALIDITY and DATA in
# bytes.
KIND, ITEMS, COUNT, SIZE, VALIDITY, VALUES, DATA = range(7)
COLUMN_FIELDS = 7
NODE, LEFT, POSITION, END = range(4)  # of a frame of the stack
FRAME_FIELDS = 4

OK, ABSENT = 0, -1
TOO_SHORT, TOO_LONG, BAD_NUMBER, BAD_BOOLEAN, BAD_SIZE, BAD_TEXT, BAD_BRANCH = range(-2, -9, -1)
BAD_SYMBOL, BAD_COUNT, BAD_DECIMAL, BAD_TIME, TOO_LARGE, TOO_DEEP = range(-9, -15, -1)
FIRST_OWN_CODE = -100  # codes of FAIL and ENUM nodes go down from this number

MOST_NUMBER_BYTES = 10
# The size of a value does not limit the number of items that take no bytes, such as nulls.
MOST_EMPTY_ITEMS = 1000
SCRATCH = 8  # bytes at the start of the output memory, for a float that becomes a double

Int64Array = NDArray[np.int64]


@kernel
def decode_values(
    data: Bytes,
    constants: Bytes,
    rows: Int64Array,
    nodes: Int64Array,
    lists: Int64Array,
    columns: Int64Array,
    before: Int64Array,
    stack: Int64Array,
    u8: Bytes,
    i32: NDArray[np.int32],
    i64: Int64Array,
    f32: NDArray[np.float32],
    f64: NDArray[np.float64],
    codes: NDArray[np.int32],
    fill: bool,
) -> int:
    """Run the program of each row; returns how many rows are not null.

    A row is (start, end, root node) in `data`. `codes` is OK, or the reason why a row is null. The first pass
    (`fill` is false) replaces OK by the reason if a value is not valid. `before` has room for two numbers a
    column.
    """
    valid = 0
    for row in range(len(rows)):
        if codes[row] == OK:
            for i in range(0 if fill else len(columns)):
                before[2 * i] = columns[i, COUNT]
                before[2 * i + 1] = columns[i, SIZE]
            start, end, root = rows[row, 0], rows[row, 1], rows[row, 2]
            code = _run(
                data, constants, start, end, root, nodes, lists, columns, stack, u8, i32, i64, f32, f64, fill
            )
            for i in range(0 if fill else len(columns)):
                if columns[i, COUNT] >= INT32_MAX or columns[i, SIZE] > INT32_MAX:
                    code = TOO_LARGE
            if code == OK:
                valid += 1
                continue
            codes[row] = code
            for i in range(len(columns)):
                columns[i, COUNT] = before[2 * i]
                columns[i, SIZE] = before[2 * i + 1]
        _run(data, constants, 0, 0, 0, nodes, lists, columns, stack, u8, i32, i64, f32, f64, fill)
    return valid


@kernel
def _run(
    data: Bytes,
    constants: Bytes,
    position: int,
    end: int,
    node: int,
    nodes: Int64Array,
    lists: Int64Array,
    columns: Int64Array,
    stack: Int64Array,
    u8: Bytes,
    i32: NDArray[np.int32],
    i64: Int64Array,
    f32: NDArray[np.float32],
    f64: NDArray[np.float64],
    fill: bool,
) -> int:
    """Read one value, all of data[position:end]; returns OK or why it is not valid."""
    source = data
    depth = 0
    empty_items = np.int64(0)
    while True:
        op, column = nodes[node, OP], nodes[node, COLUMN]
        a, b, c = nodes[node, A], nodes[node, B], nodes[node, C]
        number: Any = np.int64(0)  # Any: an np.int64 for Numba
        high: Any = np.int64(0)
        size: Any = np.int64(0)
        if op <= UNION:
            number, after = varlong(source, position, end)
            if after < 0:
                return TOO_SHORT if end - position < MOST_NUMBER_BYTES else BAD_NUMBER
            position = after
        if op <= LONG:
            if op == INT and (number < INT32_MIN or number > INT32_MAX):
                return BAD_NUMBER
            if b > 1:
                if number > INT64_MAX // b or number < -(INT64_MAX // b):
                    return BAD_TIME
                number *= b
        elif op == UNION:
            if number < 0 or number >= b:
                return BAD_BRANCH
            node = lists[a + number]
            continue
        elif op == ENUM:
            if number < 0 or number >= b:
                return BAD_SYMBOL
            if column >= 0:
                number = lists[a + number]
                if number < 0:
                    return int(c)
        elif op <= DIGITS:
            size = number if op <= NUMERAL else b
            if size < 0:
                return BAD_SIZE
            if size > end - position:
                return TOO_SHORT
            if op == BYTES and b == 1 and not fill and not is_utf8(source, position, position + size):
                return BAD_TEXT
            if op in (NUMERAL, DIGITS):
                fits, high, number = _decimal(source, position, size, lists, a)
                if not fits:
                    return BAD_DECIMAL
        elif op <= DOUBLE:
            size = 1 if op == BOOLEAN else 4 if op == FLOAT else 8
            if size > end - position:
                return TOO_SHORT
            if op == BOOLEAN and load_u8(source, position) > 1:
                return BAD_BOOLEAN
        elif op <= MEMBER:
            for i in range(b, b + c):
                null = lists[i]
                at = columns[null, COUNT]
                columns[null, COUNT] = at + 1
                kind = columns[null, KIND]
                if fill and kind == VARIABLE:
                    i32[columns[null, VALUES] + at] = columns[null, SIZE]
                elif fill and kind == OFFSETS:
                    i32[columns[null, VALUES] + at] = columns[columns[null, ITEMS], COUNT]
        elif op == FAIL:
            return int(a)
        else:
            if depth == len(stack):
                return TOO_DEEP
            stack[depth, NODE], stack[depth, LEFT] = node, 0
            stack[depth, POSITION], stack[depth, END] = position, end
            depth += 1
            if op == DEFAULT:
                source, position, end = constants, b, c
        if column >= 0 and op != NULL:
            at = columns[column, COUNT]
            columns[column, COUNT] = at + 1
            kind = columns[column, KIND]
            if kind == VARIABLE:
                columns[column, SIZE] += size
            if fill:
                u8[columns[column, VALIDITY] + at] = 1
                place = columns[column, VALUES] + at
                target = -1
                if kind == VARIABLE:
                    written = columns[column, SIZE] - size
                    i32[place] = written
                    target = columns[column, DATA] + written
                elif kind == OFFSETS:
                    i32[place] = columns[columns[column, ITEMS], COUNT]
                elif kind == BIT:
                    u8[place] = load_u8(source, position)
                elif kind == I32:
                    i32[place] = number
                elif kind == I64:
                    i64[place] = number
                elif kind == I128:
                    i64[place + at] = number
                    i64[place + at + 1] = high
                elif kind == F64 and op <= LONG:
                    f64[place] = number
                elif kind == F32 and op <= LONG:
                    f32[place] = number
                elif kind != NOTHING:
                    target = 0 if op == FLOAT and kind == F64 else place * size
                if target >= 0:
                    copy_bytes(u8, target, source, position, size)
                    if target == 0:
                        f64[place] = f32[0]
        position += size
        if op == MEMBER:
            node = a
            continue
        node = -1
        while node < 0:
            if depth == 0:
                return OK if position == end else TOO_LONG
            depth -= 1
            parent = stack[depth, NODE]
            op = nodes[parent, OP]
            if op == DEFAULT:
                if stack[depth, LEFT] == 0:
                    stack[depth, LEFT] = 1
                    node = nodes[parent, A]
                else:
                    source, position, end = data, stack[depth, POSITION], stack[depth, END]
            elif op == RECORD:
                if stack[depth, LEFT] < nodes[parent, B]:
                    node = lists[nodes[parent, A] + stack[depth, LEFT]]
                    stack[depth, LEFT] += 1
            else:
                if stack[depth, LEFT] == 0:
                    count, after = varlong(source, position, end)
                    if after >= 0 and count < 0:  # then the size of the block in bytes follows
                        count = -count
                        _size, after = varlong(source, after, end)
                    if after < 0:
                        return TOO_SHORT if end - position < MOST_NUMBER_BYTES else BAD_NUMBER
                    limit = end - after
                    if nodes[parent, C] == 1:
                        empty_items += count
                        limit = MOST_EMPTY_ITEMS - empty_items + count
                    # An item takes at least one byte, so there cannot be more items than bytes are left. The
                    # lowest int64 is still negative: `-count` does not change it.
                    if count < 0 or count > limit:
                        return BAD_COUNT
                    position = after
                    stack[depth, LEFT] = count
                if stack[depth, LEFT] > 0:
                    stack[depth, LEFT] -= 1
                    node = nodes[parent, A]
            if node >= 0:
                depth += 1


@kernel
def _decimal(
    source: Bytes, position: int, size: int, lists: Int64Array, limits: int
) -> tuple[bool, Any, Any]:
    """A number in two's complement, its highest byte first, as (whether it fits, upper half, lower half).

    From `limits` on, `lists` has the smallest and the largest number that the decimal's precision allows,
    each as two halves. A number between them fits.
    """
    is_negative = size > 0 and load_u8(source, position) >= 0x80
    high = np.int64(-1 if is_negative else 0)
    low = np.uint64(high)
    for i in range(position, position + size):
        if position + size - i > 16 and load_u8(source, i) != (0xFF if is_negative else 0):
            return False, high, high
        high = (high << np.int64(8)) | np.int64(low >> np.uint64(56))
        low = (low << np.uint64(8)) | np.uint64(load_u8(source, i))
    if size == 0 or (high < 0) != is_negative:
        return False, high, high
    lowest, highest = lists[limits], lists[limits + 2]
    if high < lowest or (high == lowest and low < np.uint64(lists[limits + 1])):
        return False, high, high
    if high > highest or (high == highest and low > np.uint64(lists[limits + 3])):
        return False, high, high
    return True, high, np.int64(low)
