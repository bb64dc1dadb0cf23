"""Runs benchmarks: to write the page of figures, only to see that they run, or to compare two commits.

python -m tools.bench write [NAME ...] [--page FILE [--smoke]]
python -m tools.bench smoke [NAME ...]
python -m tools.bench compare REF [NAME ...] [--turns 5] [--rounds 2] [--scale 0.2]
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from tools.bench_page import PAGE, BenchmarkRun, commit, machine, parse_output, read_runs, write_page

ROOT = Path(__file__).parent.parent
# The line that a benchmark prints for each of its figures when it runs without the rival.
SECONDS = re.compile(r"^(\w+): (\d+\.\d+) s alone$", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, dest="command")
    write_parser = commands.add_parser("write")
    write_parser.add_argument("names", nargs="*")
    write_parser.add_argument("--page", type=Path, help=f"write this page (default {PAGE})")
    write_parser.add_argument(
        "--smoke", action="store_true", help="use a hundredth of the data; needs --page"
    )
    commands.add_parser("smoke").add_argument("names", nargs="*")
    compare_parser = commands.add_parser("compare")
    compare_parser.add_argument("ref")
    compare_parser.add_argument("names", nargs="*")
    compare_parser.add_argument(
        "--turns", type=int, default=5, help="run so many processes of each side (default 5)"
    )
    compare_parser.add_argument(
        "--rounds", type=int, default=2, help="so many runs in each process; the best counts (default 2)"
    )
    compare_parser.add_argument(
        "--scale", type=float, default=1.0, help="use this share of the data (default 1.0)"
    )
    options = parser.parse_args()
    known = benchmarks(ROOT)
    names = options.names or known
    if unknown := sorted({*names} - {*known}):
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(known)}")
    if options.command == "write":
        if options.smoke and options.page is None:
            parser.error("--smoke measures nothing worth a page: name another page with --page")
        return write(options.page or ROOT / PAGE, names, smoke=options.smoke)
    if options.command == "smoke":
        return smoke(names)
    passed_on = (f"--rounds={options.rounds}", f"--scale={options.scale}")
    return compare(options.ref, names, options.turns, passed_on)


def benchmarks(tree: Path) -> list[str]:
    """The modules of a tree that are benchmarks, without their shared helpers."""
    modules = sorted((tree / "benchmarks").glob("*.py"))
    return [module.stem for module in modules if '__name__ == "__main__"' in module.read_text("utf-8")]


def write(page: Path, names: Sequence[str], *, smoke: bool) -> int:
    """Run these benchmarks and write the page after each; returns 1 if one fails or is below a floor.

    Earlier figures stay on the page: those of other benchmarks, and those of a benchmark that fails.
    """
    where, failed = machine(), []
    for name in names:
        load, began = os.getloadavg()[0], time.monotonic()
        moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        measured = commit(ROOT)
        status, output = run_shown(name, page, *(["--smoke"] if smoke else []))
        figures, notes = parse_output(output)
        if status not in (0, 1) or not figures:
            print(f"{name} has failed; the page keeps what was measured before.", file=sys.stderr)
            failed.append(name)
            continue
        if status:
            failed.append(name)
        run = BenchmarkRun(
            about=question(name),
            figures=figures,
            notes=notes,
            measured_at=moment,
            commit=measured,
            machine=where,
            load=load,
            seconds=time.monotonic() - began,
        )
        write_page(page, {**read_runs(page), name: run}, benchmarks(ROOT))
    print(f"{len(names)} benchmarks ran; {len(failed)} failed or were below a floor", *failed)
    return 1 if failed else 0


def question(name: str) -> str:
    """The docstring of a benchmark: the question, and what the least possible cost is."""
    return ast.get_docstring(ast.parse((ROOT / "benchmarks" / f"{name}.py").read_text("utf-8"))) or ""


def run_shown(name: str, page: Path, *options: str) -> tuple[int, str]:
    """Run a benchmark and print its output as it comes; returns its exit status and the output."""
    lines = []
    command, environ = _command(ROOT, name, options)
    # Where the benchmark puts pictures that it draws itself.
    environ["STRATALOG_PICTURES"] = str(page.with_suffix("").absolute())
    with subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return running.returncode, "".join(lines)


def smoke(names: Sequence[str]) -> int:
    """Run each benchmark on a hundredth of its data; returns the number of failures."""
    failed = [name for name in names if run(ROOT, name, "--smoke").returncode != 0]
    print(f"{len(names) - len(failed)} benchmarks ran, {len(failed)} failed", *failed)
    return len(failed)


def compare(ref: str, names: Sequence[str], turns: int, options: Sequence[str]) -> int:
    """Print how long each figure's work takes in `ref` and in this tree, in turns and without the rivals."""
    with worktree(ref) as other:
        shared = [name for name in names if (other / "benchmarks" / f"{name}.py").exists()]
        for name in sorted(set(names) - set(shared)):
            print(f"{name}: {ref} does not have this benchmark")
        # A benchmark of an older commit may not know today's options.
        shutil.copyfile(ROOT / "benchmarks" / "rounds.py", other / "benchmarks" / "rounds.py")
        for name in shared:
            seconds: defaultdict[str, dict[str, list[float]]] = defaultdict(lambda: {ref: [], "here": []})
            for turn in range(turns):
                print(f"{name}: turn {turn + 1} of {turns} ...", file=sys.stderr)
                for side, tree in ((ref, other), ("here", ROOT)):
                    done = run(tree, name, "--alone", *options, capture=True)
                    if done.returncode != 0:
                        print(done.stdout + done.stderr, file=sys.stderr)
                        return 1
                    for figure, found in SECONDS.findall(done.stdout):
                        seconds[figure][side].append(float(found))
            for figure, sides in seconds.items():
                print(f"{name} {figure}: {_sentence(ref, sides[ref], sides['here'])}", flush=True)
    return 0


def _sentence(ref: str, there: Sequence[float], here: Sequence[float]) -> str:
    """Both medians, their ratio (above 1, this tree is faster), and the spread of `ref` around its median."""
    if not there or not here:
        return "only one side has this figure"
    before, after = median(there), median(here)
    slowest, fastest = before / max(there), before / min(there)
    return (
        f"{ref} {before:.4f} s, here {after:.4f} s: {before / after:.2f}x"
        f" ({ref} against its own median: {slowest:.2f}x to {fastest:.2f}x)"
    )


def run(tree: Path, name: str, *options: str, capture: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a benchmark of a tree with that tree's own sources."""
    command, environ = _command(tree, name, options)
    return subprocess.run(command, cwd=tree, env=environ, capture_output=capture, text=True, check=False)


def _command(tree: Path, name: str, options: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    return [sys.executable, "-m", f"benchmarks.{name}", *options], {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
    }


@contextmanager
def worktree(ref: str) -> Iterator[Path]:
    """A temporary checkout of `ref` next to this one."""
    with tempfile.TemporaryDirectory(prefix="stratalog-bench-") as folder:
        tree = Path(folder, "tree")
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, ref], cwd=ROOT, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())
