"""The simulator of Spark's schedule against cases worked out by hand, and what is fitted from runs."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.schedule import (
    Fit,
    disk_share,
    fixed_costs,
    known_costs,
    predict,
    rate,
    read_costs,
    stages,
    write_costs,
)
from benchmarks.schedule_model import Costs, Fleet, Luck, Schedule, Unit, simulate
from benchmarks.schedule_petabyte import Estimate, cores_that_pay, in_order, in_turns, limits
from benchmarks.schedule_runs import PlainRates, Target, per_pack_costs

ROOT = Path(__file__).parent.parent
ONE_CORE, TWO_CORES = Fleet(cores=1), Fleet(cores=2)


def seconds(units: list[Unit], fleet: Fleet, costs: Costs, luck: Luck | None = None) -> float:
    return simulate([units], fleet, costs, luck).seconds


def test_each_core_reads_its_packs_one_after_the_other() -> None:
    costs = Costs(core_rate=100, session_s=5, operation_s=1, worker_s=1, job_s=2, task_s=0.5)

    found = simulate([[Unit(100)] * 4], TWO_CORES, costs)

    # After 5 + 1 + 2 s, each core starts its worker, and has two packs of 0.5 s and 100 bytes.
    assert found.seconds == pytest.approx(8 + 1 + 2 * 1.5)
    assert found.busy_core_s == pytest.approx(2 * 4)
    assert found.attempts == 4


def test_a_worker_starts_once_on_each_core() -> None:
    found = simulate([[Unit(0)] * 2, [Unit(100)] * 2], TWO_CORES, Costs(core_rate=100, worker_s=3))

    assert found.job_seconds == pytest.approx([3, 1])


def test_readers_share_their_disk() -> None:
    fleet = Fleet(cores=2, disk_rate=100)

    # Both get 50 a second, until the smaller is done after 1 s. The other has 50 bytes left, at 100 a second.
    assert seconds([Unit(100), Unit(50)], fleet, Costs(core_rate=100)) == pytest.approx(1.5)
    assert seconds([Unit(100, 0), Unit(50, 1)], fleet, Costs(core_rate=100)) == pytest.approx(1)


def test_a_core_that_is_slower_than_its_share_is_the_limit() -> None:
    assert seconds([Unit(100)] * 2, Fleet(cores=2, disk_rate=1000), Costs(core_rate=50)) == pytest.approx(2)


def test_a_unit_costs_its_core_and_each_pack_carries_the_list_of_all() -> None:
    costs = Costs(core_rate=100, unit_s=0.1, carried_s=0.01)

    # 8 units in 4 packs on one core: 8 times 0.1 s, and 4 packs that carry 8 units.
    assert seconds([Unit(0)] * 8, ONE_CORE, costs) == pytest.approx(0.8 + 4 * 8 * 0.01)


def test_many_units_become_jobs_in_a_row_and_the_driver_takes_each_result() -> None:
    found = simulate([[Unit(0)] * 10_001], ONE_CORE, Costs(core_rate=1, job_s=1, driver_unit_s=0.001))

    assert found.job_seconds == pytest.approx([1, 1])
    assert found.seconds == pytest.approx(2 + 10.001)


def test_the_slowest_core_ends_the_job() -> None:
    costs = Costs(core_rate=100)

    assert seconds([Unit(400), Unit(100), Unit(100)], TWO_CORES, costs) == pytest.approx(4)


def test_cores_of_a_host_crowd_each_other_and_share_what_it_can_read() -> None:
    crowded = Fleet(cores=2, cores_per_host=2, crowding=1.25)
    narrow = Fleet(cores=2, cores_per_host=2, host_rate=100)

    assert seconds([Unit(100)] * 2, crowded, Costs(core_rate=100)) == pytest.approx(1.25)
    assert seconds([Unit(100)] * 2, narrow, Costs(core_rate=100)) == pytest.approx(2)


def test_slow_hosts_and_slow_disks_take_longer() -> None:
    costs, fleet = Costs(core_rate=100), Fleet(cores=1, disk_rate=200)

    assert seconds([Unit(100)], fleet, costs, Luck(slow_hosts=1, slow_factor=4)) == pytest.approx(4)
    # A disk of 200 a second that is 4 times slower gives 50.
    assert seconds([Unit(100)], fleet, costs, Luck(slow_disks=1, slow_factor=4)) == pytest.approx(2)


def test_one_slow_host_takes_fewer_packs() -> None:
    costs = Costs(core_rate=100)
    luck = next(
        luck for seed in range(99) if _slow_cores(luck := Luck(slow_hosts=0.5, slow_factor=3, seed=seed)) == 1
    )

    # 8 packs of 1 s: while the slow core reads 2 of them in 6 s, the other reads 6.
    assert seconds([Unit(100)] * 8, TWO_CORES, costs, luck) == pytest.approx(6)


def _slow_cores(luck: Luck) -> int:
    """How many of two cores are slow: two units of a second take 1 s on fast cores, 3 s on slow ones."""
    busy = simulate([[Unit(100)] * 2], TWO_CORES, Costs(core_rate=100), luck).busy_core_s
    return round((busy - 2) / 2)


def test_a_pack_that_fails_four_times_ends_the_run() -> None:
    found = simulate([[Unit(100)], [Unit(100)]], ONE_CORE, Costs(core_rate=100, task_s=1), Luck(failing=1))

    assert found.has_failed
    assert found.attempts == 4
    assert len(found.job_seconds) == 1
    assert 4 <= found.seconds <= 4 * 2


def test_a_failed_attempt_is_repeated_and_costs_what_it_read() -> None:
    costs, luck = Costs(core_rate=100), Luck(failing=0.2, seed=1)
    found = simulate([[Unit(100)] * 40] * 5, Fleet(cores=10), costs, luck)

    assert not found.has_failed
    assert found.attempts > 200
    assert 200 < found.busy_core_s < found.attempts


def test_the_same_seed_gives_the_same_schedule() -> None:
    def run(seed: int) -> Schedule:
        luck = Luck(slow_hosts=0.3, slow_disks=0.3, slow_factor=3, failing=0.05, seed=seed)
        units = [Unit(100 + number, number % 3) for number in range(50)]
        return simulate([units], Fleet(cores=4, disk_rate=150), Costs(core_rate=100, task_s=0.1), luck)

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_costs_of_a_pack_are_found_again_from_empty_jobs() -> None:
    job_s, task_s, carried_s, own_s = 0.3, 0.02, 2e-6, 1e-5
    measured = {
        f"empty_{packs}_{tasks}_s": job_s + packs * task_s + packs * tasks * carried_s + tasks * own_s
        for packs in (4, 40)
        for tasks in (40, 10_000)
    }

    expected = {"job_s": job_s, "task_s": task_s, "carried_s": carried_s}
    assert per_pack_costs(measured) == pytest.approx(expected)


def test_fixed_costs_come_from_a_probe() -> None:
    empty = {"empty_4_40_s": 0.38, "empty_40_40_s": 1.1, "empty_4_10000_s": 0.38, "empty_40_10000_s": 1.1}
    probe = {
        **empty,
        **{"session_s": 5.0, "first_s": 3.0, "tiny_s": 1.0, "tiny_driver_s": 0.4},
        # 93 more units, in 8 packs instead of 3.
        **{"many_s": 1.0 + 93 * 0.03 + 5 * 0.02, "many_driver_s": 0.4 + 93 * 0.01},
    }

    costs = fixed_costs(probe, probe, cores=1)

    assert (costs.session_s, costs.worker_s) == pytest.approx((5, 2))
    assert (costs.task_s, costs.carried_s) == pytest.approx((0.02, 0), abs=1e-9)
    assert (costs.unit_s, costs.driver_unit_s) == pytest.approx((0.02, 0.01))
    # 0.6 s in the engine are two jobs, with three packs of 0.02 s and three units of 0.02 s.
    assert costs.job_s == pytest.approx(0.24)
    # On two cores, the two packs of the second job are side by side.
    assert fixed_costs(probe, probe, cores=2).job_s == pytest.approx(0.26)


def test_a_fitted_run_is_predicted_as_it_was_measured() -> None:
    """The simulator's own seconds give back the costs that it had."""
    size = 10**9
    true = Costs(core_rate=500e6, worker_s=1.5, job_s=0.2, task_s=0.02, unit_s=0.01, driver_unit_s=0.005)
    later = replace(true, worker_s=0)
    one_s, both_s = (simulate(stages(size, count), Fleet(cores=1), later).seconds for count in (1, 2))
    first_s = simulate(stages(size, 1), Fleet(cores=1), true).seconds + 0.7
    fixed = replace(true, core_rate=math.inf)

    costs, first_operation_s = known_costs(
        fixed, {"one_s": one_s, "both_s": both_s, "first_s": first_s}, size
    )

    assert costs.core_rate == pytest.approx(true.core_rate)
    assert first_operation_s == pytest.approx(0.7)


def test_a_rate_is_what_the_larger_run_takes_longer() -> None:
    assert rate(3.0, 4.0, 10**9, 2 * 10**9) == pytest.approx(1e9)
    assert rate(3.0, 2.0, 10**9, 2 * 10**9) == pytest.approx(100e9)


def test_a_prediction_is_the_session_and_the_schedule() -> None:
    target = Target(name="two", master="local[2]", environ={}, cores=2)
    costs = Costs(core_rate=100e6, session_s=4, worker_s=1)
    fit = Fit(costs={"two": costs}, disk_share=0.5, plain_rate=1, crowding=1.25, result_size=1)

    # 4 GB in 32 segments on two cores of 80 MB/s each.
    assert len(stages(10**9, 4)[1]) == 32
    assert predict(fit, target, 10**9, 4, None) == pytest.approx(4 + 1 + 25)
    # Not cached, each core also waits half the time of a plain reader: 12.5 + 12.5 s for each GB.
    assert predict(fit, target, 10**9, 4, PlainRates(one=40e6, together=80e6)) == pytest.approx(4 + 1 + 50)
    # A disk that gives no more to two readers than to one is the limit: twice 30 MB/s for both.
    assert predict(fit, target, 10**9, 4, PlainRates(one=30e6, together=30e6)) == pytest.approx(
        4 + 1 + 4000 / 60
    )


def test_what_a_disk_adds_is_a_share_of_the_time_of_a_plain_reader() -> None:
    fitted = {
        **{"one_s": 2.0, "one_cold_s": 3.0, "one_plain_s": 2.0},
        **{"both_s": 4.0, "both_cold_s": 6.0, "both_plain_s": 4.0},
    }

    assert disk_share(fitted) == pytest.approx(0.5)
    # Noise can make an audit that is not cached the faster one.
    assert disk_share({**fitted, "one_cold_s": 1.0, "both_cold_s": 2.0}) == pytest.approx(0.01)


def test_costs_are_kept_in_a_file(tmp_path: Path) -> None:
    fit = Fit(
        costs={"one": Costs(core_rate=2.5e9)}, disk_share=0.8, plain_rate=2e9, crowding=1, result_size=99
    )

    write_costs(tmp_path / "new" / "costs.json", fit)

    assert read_costs(tmp_path / "new" / "costs.json") == fit


def test_cores_pay_as_long_as_each_doubling_shortens_the_run() -> None:
    runs = [Estimate(cores=16, seconds=100), Estimate(cores=64, seconds=50), Estimate(cores=256, seconds=40)]

    # Four times the cores are two doublings, each to 0.75 at most: 56 s. The last step would need 28 s.
    assert cores_that_pay(runs) == 64
    assert Estimate(cores=36, seconds=100).core_hours == pytest.approx(1)


def test_a_job_of_directories_in_order_reads_few_disks() -> None:
    assert len({in_order(number).disk for number in range(10_000)}) == 10
    assert len({in_turns(number).disk for number in range(10_000)}) == 1000


def test_the_tightest_limit_is_named_first() -> None:
    # 100 kB for each of a million segments are 100 GB in the driver, and 1 GB in each job.
    (memory, words), (result, _), _ = limits(100e3, 4096)

    assert memory == pytest.approx((16 << 30) / 100e9)
    assert result == pytest.approx((1 << 30) / 1e9)
    assert "100.0 GB" in words


def test_a_petabyte_needs_the_costs_of_an_earlier_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.schedule", "--petabyte", "--costs", str(tmp_path / "none")]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "run `python -m benchmarks.schedule`" in done.stderr
