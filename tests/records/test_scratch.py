"""The memory that batches are decompressed into: kept, grown, and never shared."""

from __future__ import annotations

import threading

from stratalog.records.compression import Codec, Scratch, compress, decompress_into
from tests.records.codecs.streams import COMPRESSED

MIB = 1 << 20


def test_plain_bytes_stand_behind_what_is_used_and_growing_keeps_them() -> None:
    scratch = Scratch(4096)
    data = b"".join(b"%08d" % n for n in range(50_000))
    scratch.view[:5] = b"first"
    scratch.used = 5

    for codec in Codec:
        size = decompress_into(codec, memoryview(compress(codec, data)), scratch, limit=len(data))

        assert scratch.used == 5
        assert bytes(scratch.array[: 5 + size]) == b"first" + data


def test_a_scratch_starts_on_a_page_and_is_not_replaced_while_it_is_large_enough() -> None:
    scratch = Scratch(MIB)
    array = scratch.array

    decompress_into(Codec.LZ4, memoryview(compress(Codec.LZ4, bytes(MIB // 2))), scratch, limit=MIB)

    assert scratch.array is array
    assert array.ctypes.data % 4096 == 0
    assert array.size == MIB


def test_threads_with_their_own_scratch_do_not_disturb_each_other() -> None:
    texts = [b"".join(b"%d:%d," % (seed, n) for n in range(3000)) for seed in range(4)]
    wrong: list[int] = []

    def work(seed: int) -> None:
        scratch = Scratch(4096)
        for _ in range(40):
            for codec in COMPRESSED:
                stream = memoryview(compress(codec, texts[seed], level=None))
                size = decompress_into(codec, stream, scratch, limit=MIB)
                if scratch.view[:size] != texts[seed]:
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
