"""Runs the tests with their full counts, in parts, for hours; a run continues one that was stopped.

python -m tools.deep [PART ...] [--list] [--again]

A part is a folder or a file of tests. What it printed is kept in .deep/DIGEST/PART.txt, beside a file that
says whether it passed. DIGEST stands for the content of everything the tests depend on, so after a change all
parts run again. Parts that have passed are not repeated, unless --again is given. The exit status is 0 only
if every part has passed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parent.parent
KEPT = ".deep"
# What a result depends on. Pages are tested too, but a change of a page does not call for hours of tests.
WATCHED = ("src", "tests", "benchmarks", "tools", "constraints.txt", "pyproject.toml")
PYTEST = (sys.executable, "-m", "pytest", "-q", "--dist", "worksteal")
BY_FILE = ("--dist", "loadfile", "--no-loadscope-reorder")  # the tests of a file share a broker
JVM = ("kafka", "spark")
NO_TESTS = 5  # pytest's exit status if no test was selected


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A command that runs some of the tests, and the variables that it needs."""

    name: str
    command: tuple[str, ...]
    profile: str = "deep"
    compiled: bool = True

    def environment(self) -> dict[str, str]:
        jit = {} if self.compiled else {"NUMBA_DISABLE_JIT": "1"}
        return {**os.environ, "STRATALOG_PROFILE": self.profile, **jit}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a part ended; `summary` is the last line that pytest printed."""

    passed: bool
    seconds: float
    summary: str


def parts(root: Path, workers: int) -> dict[str, Part]:
    """All parts in the order in which they run: first what needs no JVM."""
    tests = root / "tests"
    several = ("-n", str(workers))
    top = sorted(str(path.relative_to(root)) for path in tests.glob("test_*.py"))
    found = [Part(name="top", command=(*PYTEST, *several, *top))]
    for folder in sorted(path.name for path in tests.iterdir() if any(path.rglob("test_*.py"))):
        if folder not in JVM:
            found.append(Part(name=folder, command=(*PYTEST, *several, f"tests/{folder}")))
    plain = (*PYTEST, *several, "tests/records/kernels")
    found.append(Part(name="uncompiled", command=plain, profile="ci", compiled=False))
    for path in sorted((tests / "kafka").glob("test_*.py")):
        name = path.stem.removeprefix("test_")
        found.append(
            Part(name=f"kafka-{name}", command=(*PYTEST, *several, *BY_FILE, f"tests/kafka/{path.name}"))
        )
    found.append(Part(name="spark-shared", command=(*PYTEST, "-m", "session", "tests/spark")))
    for path in sorted((tests / "spark").glob("test_*.py")):
        name = path.stem.removeprefix("test_")
        found.append(
            Part(name=f"spark-{name}", command=(*PYTEST, "-m", "not session", f"tests/spark/{path.name}"))
        )
    return {part.name: part for part in found}


def digest(root: Path, watched: Sequence[str] = WATCHED) -> str:
    """The digest of the files that decide what the tests show, as they are in the working tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *watched],
        cwd=root,
        capture_output=True,
        check=True,
    )
    seen = sha256()
    for name in sorted(listed.stdout.split(b"\0")):
        path = root / os.fsdecode(name)
        if name and path.is_file():
            seen.update(b"%s\0%s\n" % (name, sha256(path.read_bytes()).hexdigest().encode()))
    return seen.hexdigest()[:16]


def run_part(part: Part, root: Path, kept: Path) -> Outcome:
    """Run a part, print what it prints, and keep both that and the outcome."""
    began = time.monotonic()
    with (
        (kept / f"{part.name}.txt").open("w", encoding="utf-8") as file,
        subprocess.Popen(
            part.command,
            cwd=root,
            env=part.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        summary = ""
        for line in process.stdout:
            file.write(line)
            sys.stdout.write(line)
            sys.stdout.flush()
            summary = line.strip() or summary
    outcome = Outcome(
        passed=process.wait() in (0, NO_TESTS), seconds=round(time.monotonic() - began, 1), summary=summary
    )
    result = kept / f"{part.name}.json"
    result.with_suffix(".new").write_text(json.dumps(asdict(outcome)), "utf-8")
    result.with_suffix(".new").replace(result)
    return outcome


def read_outcomes(kept: Path, names: Sequence[str]) -> dict[str, Outcome]:
    """The outcomes of earlier runs of this tree."""
    paths = {name: kept / f"{name}.json" for name in names}
    return {
        name: Outcome(**json.loads(path.read_text("utf-8"))) for name, path in paths.items() if path.exists()
    }


def rows(known: Mapping[str, Part], outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    for name in known:
        outcome = outcomes.get(name)
        if outcome is None:
            yield f"{name:28} not run"
        else:
            word = "passed" if outcome.passed else "FAILED"
            yield f"{name:28} {word} {outcome.seconds:8.0f} s  {outcome.summary}"


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="only these parts; all by default")
    parser.add_argument("--list", action="store_true", help="print how each part ended, and run nothing")
    parser.add_argument("--again", action="store_true", help="also run parts that have passed")
    parser.add_argument("--workers", type=int, default=2, help="processes of pytest for a part (default 2)")
    options = parser.parse_args(arguments)
    known = parts(root, options.workers)
    if unknown := sorted({*options.parts} - {*known}):
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(known)}")
    kept = root / KEPT / digest(root)
    kept.mkdir(parents=True, exist_ok=True)
    outcomes = read_outcomes(kept, list(known))
    chosen = [] if options.list else options.parts or list(known)
    for name in chosen:
        if options.again or name not in outcomes or not outcomes[name].passed:
            print(f"== {name}", flush=True)
            outcomes[name] = run_part(known[name], root, kept)
    print(*rows(known, outcomes), sep="\n")
    seconds = sum(outcome.seconds for outcome in outcomes.values())
    passed = sum(outcome.passed for outcome in outcomes.values())
    print(f"{passed} of {len(known)} parts have passed on {kept.name}, in {seconds / 60:.0f} minutes")
    return 0 if passed == len(known) else 1


if __name__ == "__main__":
    sys.exit(main())
