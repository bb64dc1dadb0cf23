"""Runs benchmarks: all of them on little data, or those of two commits by turns on this machine.

python tools/bench.py smoke [NAME ...]
python tools/bench.py compare REF [NAME ...]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
TURNS = 3
# What a benchmark prints for each of its figures.
FIGURE = re.compile(r"^(\w+): (\d+(?:\.\d+)?)\s+\(median", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, dest="command")
    commands.add_parser("smoke").add_argument("names", nargs="*")
    compare_parser = commands.add_parser("compare")
    compare_parser.add_argument("ref")
    compare_parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    names = options.names or benchmarks(ROOT)
    return smoke(names) if options.command == "smoke" else compare(options.ref, names)


def benchmarks(tree: Path) -> list[str]:
    """The modules of a tree that are benchmarks, and not what they share."""
    modules = sorted((tree / "benchmarks").glob("*.py"))
    return [module.stem for module in modules if '__name__ == "__main__"' in module.read_text("utf-8")]


def smoke(names: Sequence[str]) -> int:
    """Run each on a hundredth of its data; the number of those that failed."""
    failed = [name for name in names if run(ROOT, name, "--smoke").returncode != 0]
    print(f"{len(names) - len(failed)} benchmarks ran, {len(failed)} failed", *failed)
    return len(failed)


def compare(ref: str, names: Sequence[str]) -> int:
    """Print each figure of `ref` and of this tree, and how they relate."""
    with worktree(ref) as other:
        shared = [name for name in names if (other / "benchmarks" / f"{name}.py").exists()]
        for name in sorted(set(names) - set(shared)):
            print(f"{name}: {ref} does not have it")
        for name in shared:
            figures: defaultdict[str, dict[str, list[float]]] = defaultdict(lambda: {ref: [], "here": []})
            for turn in range(TURNS):
                print(f"{name}: turn {turn + 1} of {TURNS} ...", file=sys.stderr)
                for side, tree in ((ref, other), ("here", ROOT)):
                    # 1 says that a floor was missed, which two commits on one machine may well do.
                    done = run(tree, name, capture=True)
                    if done.returncode not in (0, 1):
                        print(done.stdout + done.stderr, file=sys.stderr)
                        return 1
                    for figure, ratio in FIGURE.findall(done.stdout):
                        figures[figure][side].append(float(ratio))
            for figure, sides in figures.items():
                there, here = max(sides[ref], default=0.0), max(sides["here"], default=0.0)
                change = f"{here / there:.2f}x" if there and here else "only one side has it"
                print(f"{figure}: {ref} {there:.2f}, here {here:.2f}: {change}")
    return 0


def run(tree: Path, name: str, *options: str, capture: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a benchmark of a tree with that tree's own sources."""
    environ = {**os.environ, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, "-m", f"benchmarks.{name}", *options]
    return subprocess.run(command, cwd=tree, env=environ, capture_output=capture, text=True, check=False)


@contextmanager
def worktree(ref: str) -> Iterator[Path]:
    """A checkout of `ref` beside this one, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="stratalog-bench-") as folder:
        tree = Path(folder, "tree")
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, ref], cwd=ROOT, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())
