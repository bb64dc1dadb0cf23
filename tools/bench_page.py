"""The page of figures, docs/benchmarks.md, with its charts: made from what the benchmarks print.

A run of a benchmark is kept in docs/benchmarks/figures.json with its time, commit and machine, so that the
page can be drawn again after any other benchmark has run. Nobody edits the page.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from stratalog.cli.startup.chart import ChartBar, bar_chart

PAGE = Path("docs", "benchmarks.md")
# What `benchmarks/rounds.py` prints: a line with both rates or times, and at the end a line with the ratio.
_RATIO = re.compile(r"^(\w+): (\d+\.\d+)  \(median (\d+\.\d+), floor ([\d.]+)\)$")
_BOTH = re.compile(r"^(\w+): rival (.+), ours (.+)$")
_OURS, _RIVAL = 0, 3  # colours
_INTRODUCTION = """# Benchmarks

`make bench` writes this page and its charts from what the programs in `benchmarks/` print, so do not edit it.
`make bench ARGS="ls scan"` measures only these two, and keeps the figures of the others.

A ratio is the rival's best time divided by our best time: above 1, we are faster. Both sides run in turns, in
several rounds. Each round has a ratio of its own, and the median is that of these ratios. Each figure has a
floor, below which its benchmark fails. A figure that is not a time, such as memory, is defined so that more
is better.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One ratio, and the rates or times that it compares: `rival` and `ours`, empty if it compares none."""

    name: str
    ratio: float
    median: float
    floor: float
    rival: str = ""
    ours: str = ""

    @property
    def is_below(self) -> bool:
        return self.ratio < self.floor


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRun:
    """What one benchmark printed, and when, where and on which commit it was measured."""

    about: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]
    measured_at: str
    commit: str
    machine: str
    load: float
    seconds: float


def parse_output(output: str) -> tuple[tuple[Figure, ...], tuple[str, ...]]:
    """The figures in the output of a benchmark, and its other lines, without the first: the question."""
    ratios, both, notes = {}, {}, []
    for line in output.splitlines()[1:]:
        if found := _RATIO.match(line):
            ratios[found[1]] = found
        elif found := _BOTH.match(line):
            both[found[1]] = (found[2], found[3])
        elif line.strip():
            notes.append(line.rstrip())
    figures = []
    for name, found in ratios.items():
        rival, ours = both.get(name, ("", ""))
        figures.append(
            Figure(
                name=name,
                ratio=float(found[2]),
                median=float(found[3]),
                floor=float(found[4]),
                rival=rival,
                ours=ours,
            )
        )
    return tuple(figures), tuple(notes)


def read_runs(page: Path) -> dict[str, BenchmarkRun]:
    """The runs that this page was made from, by the name of the benchmark."""
    file = _folder(page) / "figures.json"
    document = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return {
        name: BenchmarkRun(
            **{
                **run,
                "figures": tuple(Figure(**figure) for figure in run["figures"]),
                "notes": tuple(run["notes"]),
            }
        )
        for name, run in document.items()
    }


def write_page(page: Path, runs: Mapping[str, BenchmarkRun], names: Sequence[str]) -> None:
    """Write the page, a chart for each run, and the runs. `names` are the benchmarks there are."""
    folder = _folder(page)
    folder.mkdir(parents=True, exist_ok=True)
    kept = {name: runs[name] for name in sorted(runs) if name in names}
    for name, run in kept.items():
        (folder / f"{name}.svg").write_text(chart(name, run), "utf-8")
    document = {name: asdict(run) for name, run in kept.items()}
    (folder / "figures.json").write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    page.write_text(page_text(page, kept, names), "utf-8")


def page_text(page: Path, runs: Mapping[str, BenchmarkRun], names: Sequence[str]) -> str:
    """The text of the page of these runs. Pictures that a benchmark has drawn itself follow its chart."""
    parts = [_INTRODUCTION, _overview(runs)]
    parts += [_section(page, name, run) for name, run in runs.items()]
    missing = [name for name in names if name not in runs]
    if missing:
        listed = ", ".join(f"`{name}`" for name in missing)
        parts.append(f"## Not measured yet\n\nThese benchmarks have no figures here yet: {listed}.\n")
    parts.append(_machines(runs))
    return "\n".join(parts)


def chart(name: str, run: BenchmarkRun) -> str:
    """A group of bars for each figure: the bar of the rival is 1 long, and ours is as long as the ratio."""
    groups = []
    for figure in run.figures:
        text = f"{figure.ratio:.2f} (floor {figure.floor:g})"
        bars = [ChartBar("ours", figure.ratio, f"{text}  {figure.ours}".rstrip(), _OURS)]
        if figure.rival:
            bars.insert(0, ChartBar("rival", 1.0, f"1  {figure.rival}", _RIVAL))
        groups.append((figure.name, bars))
    return bar_chart(f"{name}: longer is faster", groups)


def machine() -> str:
    """The machine in a line: processor, cores, memory, system, Python and Java; not its name."""
    cpu = re.search(r"^model name\s*: (.+)$", _text("/proc/cpuinfo"), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s+(\d+) kB", _text("/proc/meminfo"), re.MULTILINE)
    parts = [
        cpu[1] if cpu else platform.machine(),
        f"{os.cpu_count()} cores",
        *([f"{int(memory[1]) / 1e6:.0f} GB of memory"] if memory else []),
        f"{platform.system()} {platform.release().split('-')[0]}",
        f"Python {platform.python_version()}",
    ]
    java = _output_of("java", "-version").splitlines()
    return ", ".join([*parts, *([java[0].replace('"', "")] if java else [])])


def commit(root: Path) -> str:
    """The commit of a tree, and whether the measured sources have changed since that commit."""
    measured = ("src", "benchmarks", "tools", "pyproject.toml", "constraints.txt")
    name = _output_of("git", "-C", str(root), "rev-parse", "--short=10", "HEAD").strip()
    changes = _output_of("git", "-C", str(root), "status", "--porcelain", "--", *measured)
    return f"{name or 'unknown'}{' with changes' if changes.strip() else ''}"


def _folder(page: Path) -> Path:
    return page.with_suffix("")


def _overview(runs: Mapping[str, BenchmarkRun]) -> str:
    rows = [
        [
            f"[{name}](#{name})",
            f"`{figure.name}`",
            f"**{figure.ratio:.2f}**" + (" (below its floor)" if figure.is_below else ""),
            f"{figure.median:.2f}",
            f"{figure.floor:g}",
            figure.rival,
            figure.ours,
            run.measured_at,
            run.commit,
        ]
        for name, run in runs.items()
        for figure in run.figures
    ]
    head = ["benchmark", "figure", "ratio", "median", "floor", "rival", "ours", "measured", "commit"]
    return _table(head, rows)


def _section(page: Path, name: str, run: BenchmarkRun) -> str:
    folder = _folder(page)
    own = sorted(file.name for file in folder.glob(f"{name}-*.svg"))
    pictures = [f"![{name}: ours and the rival]({folder.name}/{name}.svg)"]
    pictures += [f"![{Path(file).stem}]({folder.name}/{file})" for file in own]
    notes = ["```text", *run.notes, "```", ""] if run.notes else []
    measured = (
        f"Measured at {run.measured_at} on commit {run.commit}, in {run.seconds:.0f} s. "
        f"Before the measurement, the load of the machine was {run.load:.1f}."
    )
    lines = [f"## {name}", "", run.about.strip(), "", *pictures, "", *notes, measured, ""]
    return "\n".join(lines)


def _machines(runs: Mapping[str, BenchmarkRun]) -> str:
    by_machine: dict[str, list[str]] = {}
    for name, run in runs.items():
        by_machine.setdefault(run.machine, []).append(f"`{name}`")
    rows = [[where, ", ".join(names)] for where, names in by_machine.items()]
    return "## The machine\n\n" + _table(["machine", "benchmarks"], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def _text(path: str) -> str:
    file = Path(path)
    return file.read_text("utf-8", errors="replace") if file.exists() else ""


def _output_of(*command: str) -> str:
    """What a program prints, on either stream; nothing if it fails or does not exist."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout or done.stderr
