"""docs/benchmarks.md is made from what the benchmarks print, and from nothing else."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.test_docs import LINK
from tools import bench
from tools.bench_page import PAGE, BenchmarkRun, chart, page_text, parse_output, read_runs, write_page

ROOT = Path(__file__).parent.parent
# Printed by `benchmarks/ls.py`, `benchmarks/lookup.py` and `benchmarks/load_unclean.py`.
PRINTED = """How long does it take to list 10,000 partitions of 4 segments?
1,000 segments, 12,345 bytes
ls_vs_list: rival 92,345 partitions/s, ours 31,002 partitions/s
load_16k: rival 4.100 s, ours 0.950 s
ls_vs_list: 0.34  (median 0.31, floor 0.2)
load_16k: 4.32  (median 4.10, floor 5)
memory: 1.25  (median 1.25, floor 1.0)
"""


def run(**changes: object) -> BenchmarkRun:
    figures, notes = parse_output(PRINTED)
    made = BenchmarkRun(
        about="How long does it take?\n\nThe least possible cost is this.",
        figures=figures,
        notes=notes,
        measured_at="2026-11-17 18:00 UTC",
        commit="0123456789",
        machine="a machine",
        load=0.25,
        seconds=12.4,
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_figures_are_read_from_what_a_benchmark_prints() -> None:
    figures, notes = parse_output(PRINTED)

    assert notes == ("1,000 segments, 12,345 bytes",)
    assert [(each.name, each.ratio, each.median, each.floor) for each in figures] == [
        ("ls_vs_list", 0.34, 0.31, 0.2),
        ("load_16k", 4.32, 4.1, 5.0),
        ("memory", 1.25, 1.25, 1.0),
    ]
    assert [(each.rival, each.ours) for each in figures] == [
        ("92,345 partitions/s", "31,002 partitions/s"),
        ("4.100 s", "0.950 s"),
        ("", ""),
    ]
    assert [each.is_below for each in figures] == [False, True, False]


def test_benchmarks_print_what_is_read_here() -> None:
    program = """
from benchmarks.rounds import Rounds
rounds = Rounds("Is it fast?")
rounds.compare_times("quick", ours=lambda: 0.5, rival=lambda: 2.0, floor=3, unit="s")
rounds.compare("work", ours=list, rival=list, floor=0.0, work="bytes", amount=10)
rounds.state("memory", 1.5, 1.0)
rounds.end()
"""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program, "--smoke"], env=environ, capture_output=True, text=True, check=True
    )

    figures, notes = parse_output(done.stdout)

    assert notes == ()
    assert [each.name for each in figures] == ["quick", "work", "memory"]
    assert (figures[0].ratio, figures[0].floor) == (4.0, 3.0)
    assert (figures[0].rival, figures[0].ours) == ("2.000 s", "0.500 s")
    assert figures[1].rival.endswith(" bytes/s")


def test_what_is_not_measured_again_stays_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    write_page(page, {"walk": run(commit="aaaaaaaaaa")}, ["ls", "scan", "walk"])

    write_page(page, {**read_runs(page), "ls": run(commit="bbbbbbbbbb with changes")}, ["ls", "scan", "walk"])

    text = page.read_text("utf-8")
    assert read_runs(page)["walk"] == run(commit="aaaaaaaaaa")
    assert "Measured at 2026-11-17 18:00 UTC on commit aaaaaaaaaa, in 12 s." in text
    assert "on commit bbbbbbbbbb with changes, in 12 s." in text
    assert "| [ls](#ls) | `load_16k` | **4.32** (below its floor) | 4.10 | 5 | 4.100 s | 0.950 s |" in text
    assert "These benchmarks have no figures here yet: `scan`." in text
    assert "| a machine | `ls`, `walk` |" in text


def test_links_and_pictures_of_the_page_exist(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "ls-drawn.svg").write_text("<svg/>")

    write_page(page, {"ls": run()}, ["ls"])

    targets = LINK.findall(page.read_text("utf-8"))
    assert targets == ["benchmarks/ls.svg", "benchmarks/ls-drawn.svg"]
    assert all((tmp_path / target).exists() for target in targets)


def test_a_bar_is_as_long_as_its_ratio_beside_the_rival() -> None:
    drawn = ElementTree.fromstring(chart("ls", run()))

    bars = [bar for bar in drawn.iter("{http://www.w3.org/2000/svg}rect") if "x" in bar.attrib]
    rival, ours = (int(bar.attrib["width"]) for bar in bars[2:4])
    assert len(bars) == 5  # memory has no rival
    assert ours / rival == pytest.approx(4.32, rel=0.01)


def test_the_page_in_docs_is_not_written_by_hand() -> None:
    page = ROOT / PAGE
    runs = read_runs(page)

    assert page.exists() == bool(runs)
    if runs:
        words = 'Do not edit this page: `make bench ARGS="ls"` writes it.'
        # Benchmarks that came later are on it when it is written next.
        written = page.read_text("utf-8")
        names = [name for name in bench.benchmarks(ROOT) if name in runs or f"`{name}`" in written]
        assert written == page_text(page, runs, names), words


def test_a_benchmark_that_fails_does_not_touch_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "broken.py").write_text(
        'if __name__ == "__main__":\n    raise SystemExit(1)\n'
    )
    monkeypatch.setattr(bench, "ROOT", tmp_path)

    assert bench.write(tmp_path / "page.md", ["broken"], smoke=True) == 1

    assert "broken has failed" in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()


def test_little_data_makes_no_page_in_docs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench", "write", "--smoke", "ls"])

    with pytest.raises(SystemExit, match="2"):
        bench.main()

    assert "--smoke measures nothing worth a page" in capsys.readouterr().err
