"""What a power cut may take from a simulated disk."""

from __future__ import annotations

from tests.files.powerless import found, made

A, B = "/logs/a", "/logs/b"


def test_one_file_may_keep_what_another_lost() -> None:
    disk = made({A: b"", B: b""})
    disk.append(A, b"a")
    disk.append(B, b"b")

    assert found(disk) == {((A, a), (B, b)) for a in (b"", b"a") for b in (b"", b"b")}


def test_of_many_possible_disks_some_can_be_had_and_the_same_ones_each_time() -> None:
    disk = made()
    for number in range(4):
        disk.append(f"/logs/{number}", b"x" * 700)
    every = found(disk)

    few = [tuple(after.contents().items()) for after in disk.crash(5)]
    assert len(set(few)) == 5
    assert set(few) < every
    assert few == [tuple(after.contents().items()) for after in disk.crash(5)]
