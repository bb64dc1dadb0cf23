"""A kernel runs in two forms, plain Python and machine code: which of them when, and that both agree."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stratalog.records.build import Record, build_batch
from stratalog.records.kernels import decode, jit, text, walk
from stratalog.records.kernels.jit import INTERPRETED, Kernel, compiled_by, inlined, kernel, rows_of
from stratalog.records.kernels.loaded import MISSING, UNKNOWN
from stratalog.records.kernels.memory import byte_array
from stratalog.records.walk import new_table
from tests.records.kernels.test_encode import columns_of
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(INTERPRETED, reason="NUMBA_DISABLE_JIT: nothing is compiled")


def run(program: str, *arguments: str) -> list[str]:
    """The lines that a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@compiled_by(lambda: None)
def _one() -> int:
    return 1


@inlined
def _added(number: Any) -> Any:
    return number + _one()


def _slow_twin(count: int) -> int:
    return count * 1000


@kernel(size=lambda count: count, twin=_slow_twin)
def count_up(count: int) -> int:
    return _added(count) * np.uint8(0) + count * 1000


@kernel(size=lambda count: 10_000 * count)
def factorial(count: int) -> Any:
    return np.int64(1) if count <= 1 else np.int64(count) * factorial(count - 1)


@kernel
def without_size(count: int) -> Any:
    return np.int64(count) + _added(count)


def made(function: Any) -> Kernel[..., Any]:
    assert isinstance(function, Kernel)
    return function


@pytest.fixture
def plain_time(monkeypatch: pytest.MonkeyPatch) -> jit.PlainTime:
    """A second of plain Python, though tests compile at once."""
    left = jit.PlainTime()
    left.left_s = 1
    monkeypatch.setattr(jit, "may_stay_plain", lambda: True)
    monkeypatch.setattr(jit, "_plain_time", left)
    return left


def test_both_forms_see_other_kernels_in_their_own_form() -> None:
    plain, compiled = made(without_size).run_plain(3), made(without_size).machine_code()(3)

    assert (plain, type(plain)) == (compiled, type(compiled)) == (7, int)


def test_a_kernel_may_call_itself() -> None:
    assert made(factorial).run_plain(5) == made(factorial).machine_code()(5) == 120


def test_a_twin_runs_as_plain_python_only() -> None:
    assert made(count_up).run_plain(7) == made(count_up).machine_code()(7) == 7000


def test_plain_python_takes_of_its_time(plain_time: jit.PlainTime) -> None:
    assert made(factorial)(6) == 720
    assert plain_time.left_s < 1
    assert isinstance(factorial, Kernel)


def test_a_large_call_is_compiled(plain_time: jit.PlainTime) -> None:
    assert made(count_up).is_small(jit.PLAIN_BYTES)
    assert not made(count_up).is_small(jit.PLAIN_BYTES + 1)
    assert not made(without_size).is_small(0)

    assert count_up(jit.PLAIN_BYTES + 1) == (jit.PLAIN_BYTES + 1) * 1000

    assert plain_time.left_s == 1
    assert not isinstance(count_up, Kernel)  # its name stands for the machine code now


@kernel(size=lambda count: count, plain_us=lambda count: count // 10)
def quick(count: int) -> int:
    return 2 * count


def test_a_larger_call_is_plain_python_where_nothing_is_compiled(
    plain_time: jit.PlainTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[object] = [MISSING, UNKNOWN]
    monkeypatch.setattr(Kernel, "run_loaded", lambda _kernel, *_: answers.pop(0))
    plain_time.left_s = 0

    assert made(quick)(1_000_000) == 2_000_000
    assert isinstance(quick, Kernel)
    assert plain_time.left_s < 0
    assert plain_time.loaded_calls == jit.PlainTime().loaded_calls

    assert made(quick)(1_000_000) == 2_000_000
    assert not isinstance(quick, Kernel)
    assert not made(factorial).is_quicker_than_compiling(30)  # this process uses Numba now


@pytest.mark.usefixtures("plain_time")
def test_after_some_processes_a_larger_call_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert made(factorial).is_quicker_than_compiling(9)
    monkeypatch.setattr(jit, "may_stay_plain", lambda: False)
    assert not made(factorial).is_quicker_than_compiling(9)


@pytest.mark.parametrize(("left_s", "is_quicker"), [(0, True), (0.1 - jit.MORE_SECONDS, False)])
def test_compiling_is_quicker_for_large_calls_and_after_a_while(
    plain_time: jit.PlainTime, left_s: float, is_quicker: bool
) -> None:
    plain_time.left_s = left_s

    assert plain_time.more_s == jit.MORE_SECONDS
    assert made(factorial).is_quicker_than_compiling(9)
    assert made(factorial).is_quicker_than_compiling(20) == is_quicker
    assert not made(factorial).is_quicker_than_compiling(1000)
    assert not made(without_size).is_quicker_than_compiling(0)


def test_rows_have_fields_in_both_forms() -> None:
    rows = np.zeros(1, rows_of([("a", np.int16), ("b", np.int64)]))

    assert rows[0].b == 0
    assert rows.dtype.itemsize == 16


FEW = """
import sys, stratalog
with stratalog.open_log(sys.argv[1], create=True) as log:
    log.append_many([b"%d" % i for i in range(int(sys.argv[2]))])
    print(sum(1 for _ in log.records()))
from stratalog.records.kernels import jit, loaded
print("numba" in sys.modules, jit._plain_time.loaded_calls < loaded.LOADED_CALLS)
"""


def test_a_few_records_need_no_machine_code(tmp_path: Path) -> None:
    assert run(FEW, str(tmp_path / "orders-0"), "10") == ["10", "False False"]


def test_many_records_run_as_machine_code(tmp_path: Path) -> None:
    count, forms = run(FEW, str(tmp_path / "orders-0"), "100000")

    assert count == "100000"
    assert "True" in forms.split()


TIME_IS_UP = """
import sys
from stratalog.records.kernels import crc32c, jit
from stratalog.records.kernels.memory import byte_array
data = byte_array(bytes(range(250)) * 4)
for _ in range(2):
    print(crc32c.crc32c(data, 0, 1000), "numba" in sys.modules, type(crc32c.crc32c) is jit.Kernel)
    jit.compile_always()
"""


def test_when_the_time_is_up_machine_code_takes_over() -> None:
    first, second = (line.split() for line in run(TIME_IS_UP))

    assert first[1:] == ["False", "True"]
    assert second[1:] == ["True", "False"]
    assert first[0] == second[0]


# What `warm` does touches every kernel, and damaged bytes take the other ways through them.
COMPARED = """
import random
from tests import both_forms
both_forms.compare_always()
from stratalog.cli.warming import warm_everything
from stratalog.errors import StratalogError
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.columns import ALL_COLUMNS, read_columns
from stratalog.records.compression import Codec
import numpy as np
from stratalog.records.kernels import jit, scan
from stratalog.records.kernels.crc32c import crc32_zlib
from stratalog.records.kernels.memory import byte_array
from stratalog.records.kernels.walk import BATCH
from stratalog.records.lines import LineMaker
from stratalog.records.walk import walk_batches
warm_everything()
line = LineMaker([(kind, b"NULL") for kind in range(8)])
for size in range(30):
    crc32_zlib(byte_array(bytes(range(size))), 0, size)
# A marker that no broker writes, and more producers than there is room for.
producers, slots, batch = np.zeros(8, scan.PRODUCER), np.full(16, -1, np.int32), np.zeros(1, BATCH)[0]
counts, events = np.zeros(4, np.int64), np.zeros(8, scan.EVENT)
for producer_id in (3, 19, 2**40):
    batch.producer_id = producer_id
    scan.end_txn(batch, True, 7, 5, counts, slots, producers, events)
scan.fill_slots(producers, 3, slots)
rng = random.Random(1)
for number in range(300):
    records = [
        Record(offset, rng.choice([0, -1, 2**62, 1_700_000_000_000]), rng.choice([None, b"", b"k" * 40]),
               rng.randbytes(rng.randrange(90)), (("h", None),) * rng.randrange(3))
        for offset in range(rng.randrange(1, 9))
    ]
    data = bytearray(build_batch(records, BatchOptions(codec=rng.choice([*Codec]))))
    for _ in range(rng.choice([0, 0, 1, 3])):
        data[rng.randrange(len(data))] = rng.choice([0, 1, 127, 128, 255])
    walk_batches(data + data[: rng.randrange(len(data))])
    try:
        list(read_columns(bytes(data), columns=ALL_COLUMNS, made={"line": line}, check_crc=False))
    except StratalogError:
        pass
print(*sorted(both_forms.calls))
print(*sorted(both_forms.calls_of_images))
print(*sorted(
    f"{each.__module__.rpartition('.')[2]}.{each.__name__}" for each in jit.kernels() if each.has_size
))
"""


# The first two allocate memory; the others get a row, or return a tuple that has a boolean inside a tuple.
NEED_NUMBA = {
    "recover.recover",
    "validate.check_ready",
    "scan.end_txn",
    "validate.walk_and_check",
}


# They have no size, so that they never run as plain Python.
WITH_IMAGES_ONLY = {
    "avro.decode_values",
    "clean.judge_batches",
    "clean.write_batches",
    "latest.put_newest",
    "offset_map.put_records",
    "scan.gather",
    "tally.tally",
}


def test_both_forms_return_and_write_the_same() -> None:
    compared, with_images, with_size = (set(line.split()) for line in run(COMPARED))

    assert with_size - compared == set()
    if platform.machine() == "x86_64":
        assert with_size - with_images <= NEED_NUMBA
        assert with_images - with_size >= WITH_IMAGES_ONLY


def test_headers_with_the_largest_numbers_give_the_same_in_both_forms() -> None:
    (compared,) = run("from tests.records.kernels import extremes; extremes.main(100)")

    expected = {
        "walk.walk",
        "recover.recover",
        "validate.check_and_stamp",
        "text.write_lines",
        "audit.check",
    }
    assert expected <= {*compared.split()}


# Each log is a folder of its own; one of them begins with the largest offset that there is.
PLAIN_ONLY = """
import contextlib, io, random, sys
from pathlib import Path
from stratalog import open_log
from stratalog.cli.main import main
from stratalog.errors import StratalogError
from stratalog.records.build import Record, build_batch
from stratalog.records.kernels import jit, recover, walk
from tests.records.changing import changed
from tests.records.kernels.extremes import extreme_log
jit._plain_time.left_s = 1e9
rng = random.Random(2)
last = changed(build_batch([Record(0, 5, b"k", b"v"), Record(1, 5, b"k", b"v")]), base_offset=2**63 - 1)
status = set()
for number, data in enumerate([last, *(extreme_log(rng) for _ in range(25))]):
    folder = Path(sys.argv[1], str(number), "orders-0")
    with open_log(folder, create=True) as log:
        log.append_many([b"a", b"b"])
        for keep_offsets in (False, True):
            try:
                log.append_batch(data, keep_offsets=keep_offsets)
            except StratalogError:
                pass
    with open(folder / f"{0:020}.log", "ab") as file:
        file.write(data)
    for command in (["audit"], ["recover", "--dry-run"]):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                main([*command, str(folder.parent)])
            except SystemExit as exit:
                status.add(exit.code)
        assert "Traceback" not in printed.getvalue(), printed.getvalue()
print(sorted(status))
print(type(recover.recover) is type(walk.walk) is jit.Kernel)
"""


def test_recover_audit_and_appends_do_not_crash_at_the_largest_offset_before_kernels_are_compiled(
    tmp_path: Path,
) -> None:
    assert run(PLAIN_ONLY, str(tmp_path)) == ["[0, 1]", "True"]


MUTATED = """
from tests import both_forms
both_forms.compare_always()
from tests.properties.mutate import mutated
from tests.properties.readers import Readers
readers = Readers()
for number in range(60):
    readers.run(mutated(20_000, number))
print(*sorted(both_forms.calls))
"""


def test_damaged_batches_are_read_alike_by_both_forms() -> None:
    (compared,) = run(MUTATED)

    assert {
        "audit.check",
        "decode.decode",
        "decode.decode_legacy",
        "gather.gather_headers",
        "recover.recover",
    } <= {*compared.split()}


def test_a_record_with_many_headers_is_not_small() -> None:
    record = Record(0, 5, b"k", b"v", (("h", b"v"),) * 20_000)
    data = byte_array(build_batch([record]))
    table, rows, at = new_table(1), np.zeros(1, decode.RECORD), (0, 0, 0)
    walk.walk(data, 0, data.size, table, False, data.size)
    decode.decode(data, table, rows, at, data.size, 0, 1)
    columns = columns_of([record])
    forms = {(each.__module__.rpartition(".")[2], each.__name__): each for each in jit.kernels()}

    assert rows[0].headers_count == 20_000
    assert not forms["decode", "decode"].is_small(data, table, rows, at, data.size, 0, 1)
    assert not forms["gather", "gather_headers"].is_small(data, rows)
    assert not forms["encode", "encode"].is_small(columns, 0, 1, 0, 0, data, 0, data.size)
    assert not forms["text", "write_lines"].is_small(data, table, 1, rows)


def test_a_large_value_of_a_dump_is_not_small() -> None:
    rows = np.zeros(1, decode.RECORD)
    (write_lines,) = (each for each in jit.kernels() if each.__module__ == text.__name__ and each.has_size)

    assert write_lines.is_small(None, [], 0, rows)
    rows[0].value_size = 100_000
    assert not write_lines.is_small(None, [], 0, rows)
