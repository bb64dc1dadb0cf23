"""How tasks are packed and put in turns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stratalog.engine.engine import in_turns, pack


@given(st.lists(st.integers(0, 10**12)), st.integers(1, 20))
def test_each_task_is_in_one_pack_and_no_pack_is_empty(weights: list[int], packs_count: int) -> None:
    packs = pack(weights, packs_count)

    assert sorted(index for members in packs for index in members) == list(range(len(weights)))
    assert len(packs) == min(packs_count, len(weights))
    assert all(packs)


@given(st.lists(st.integers(1, 10**6), min_size=1), st.integers(1, 8))
def test_the_heaviest_pack_comes_first_and_exceeds_the_mean_by_less_than_a_task(
    weights: list[int], packs_count: int
) -> None:
    totals = [sum(weights[index] for index in members) for members in pack(weights, packs_count)]

    assert totals == sorted(totals, reverse=True)
    assert totals[0] <= sum(weights) / packs_count + max(weights)


def test_tasks_of_groups_come_in_turns_and_in_their_order() -> None:
    assert in_turns(["a", "a", "a", "b", "c", "c"]) == [0, 3, 4, 1, 5, 2]
    assert in_turns([]) == []


@given(st.lists(st.integers(0, 4)))
def test_turns_are_fair(groups: list[int]) -> None:
    order = in_turns(groups)

    assert sorted(order) == list(range(len(groups)))
    for group in set(groups):
        own = [number for number in order if groups[number] == group]
        assert own == sorted(own)
        # While a group has tasks left, no other has had two turns more.
        last = order.index(own[-1])
        for other in set(groups) - {group}:
            assert [groups[number] for number in order[:last]].count(other) <= len(own)
