"""`stratalog demo`: a broker's directory, a power cut, and the recovery, command by command."""

from __future__ import annotations

import io
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stratalog.cli.output import ExitCode, Output, json_option
from stratalog.cli.size import parse_size
from stratalog.errors import UsageError
from stratalog.operations.words import size_text

if TYPE_CHECKING:
    from stratalog.cli.demo_damage import Planted

SMALLEST_SIZE = 4_000_000
BY_PLACE = """
SELECT get_json_object(CAST(value AS STRING), "$.place") AS place, count(*) AS orders
FROM orders GROUP BY place ORDER BY orders DESC
"""
BY_LAG = "SELECT `group`, topic, sum(lag) AS lag FROM kafka_lag GROUP BY ALL ORDER BY lag DESC LIMIT 5"


@click.command(short_help="A broker's directory, a power cut, and the way back.")
@click.option(
    "--size",
    default="400MB",
    show_default=True,
    metavar="SIZE",
    callback=parse_size,
    help="Bytes of the log directory.",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Build everything in this folder.  [default: a new temporary folder]",
)
@click.option("--master", default="local[*]", show_default=True, help="The Spark master.")
@click.option(
    "--engine",
    "engine_name",
    type=click.Choice(["spark", "threads"]),
    default="spark",
    show_default=True,
    help="What runs the audit. With threads no Java is needed, but the queries and the export are left out.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="The same number gives the same bytes.")
@json_option
@click.pass_context
def demo(
    context: click.Context,
    *,
    size: int,
    directory: Path | None,
    master: str,
    engine_name: str,
    seed: int,
) -> ExitCode:
    """Build a broker's log directory, simulate a power cut, and bring it back, command by command.

    It has seven topics, with every codec, transactions and consumer groups. Five of its files are damaged.
    `doctor`, `audit`, `recover`, `sql` and `export` follow, each as it would be typed. The folder stays.
    """
    if size < SMALLEST_SIZE:
        raise UsageError(
            f"--size {size} is too small for the demo's topics: give at least {size_text(SMALLEST_SIZE)}"
        )
    story = _Story(context.ensure_object(Output), context.find_root().command, _folder(directory))
    with _one_session(engine_name, master):
        return story.tell(size, seed, None if engine_name == "threads" else master)


def _folder(directory: Path | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="stratalog-demo-"))
    if directory.exists() and any(directory.iterdir()):
        raise UsageError(f"{directory} is not empty: the demo damages what it finds, so give it a new folder")
    return directory.absolute()  # an audit names files by their whole path


@contextmanager
def _one_session(engine_name: str, master: str) -> Iterator[None]:
    """A session that all commands of the demo share."""
    if engine_name == "threads":
        yield
        return
    from stratalog.spark.session import session

    with session("stratalog demo", master=master):
        yield


@dataclass(slots=True, kw_only=True)
class _Told:
    """A command that was run: its line, its exit status and its report."""

    command: str
    status: int
    report: object


@dataclass(slots=True)
class _Story:
    output: Output
    root: click.Command
    folder: Path
    told: list[_Told] = field(default_factory=list)

    def tell(self, size: int, seed: int, master: str | None) -> ExitCode:
        """Run all steps; FAILED if the audit did not find exactly what was planted."""
        from stratalog.cli.demo_damage import unexpected
        from stratalog.operations.audit.audit_report import AuditReport

        logs, page = self.folder / "kafka-logs", self.folder / "audit.html"
        planted = self._build(logs, size, seed)
        directory = str(logs)
        self._step(
            "May the broker be started? Names, sizes, small files and the ends of logs are read.",
            "doctor",
            directory,
        )
        on_spark = [] if master is None else ["--master", master]
        audited = self._step(
            "What is wrong? Every byte of every file is checked" + (", on Spark." if on_spark else "."),
            *("audit", directory, *on_spark, "--html", str(page)),
        )
        assert isinstance(audited, AuditReport)
        problems = unexpected(planted, audited)
        self._step(
            "Repair it. There is no other copy, so whatever can be read after the damage stays. Bytes "
            "that are cut off are kept in quarantine.",
            *("recover", directory, "--salvage"),
        )
        self._step("And now?", "doctor", directory)
        if master is not None:
            self._query(directory, master)
        return self._end(logs, page, problems, [asdict(damage) for damage in planted])

    def _build(self, logs: Path, size: int, seed: int) -> list[Planted]:
        from stratalog.cli.demo_damage import cut_the_power, plant
        from stratalog.cli.demo_logs import build_logs
        from stratalog.files.disk import Disk

        with self.output.progress("Building logs ") as on_progress:
            built = build_logs(logs, size=size, seed=seed, disk=Disk(), on_progress=on_progress)
        built_size = size_text(sum(log.stat().st_size for log in built))
        self.output.say(
            f"Built the log directory of a broker, {built_size} in {len(built)} segments: {logs}."
        )
        planted = plant(built)
        cut_the_power(logs)
        self.output.say(f"Cut its power, and damaged {len(planted)} files.")
        return planted

    def _query(self, directory: str, master: str) -> None:
        on_spark = ["--master", master]
        query = " ".join(BY_PLACE.split())
        self._step("The records, by SQL on embedded Spark:", *("sql", directory, query, *on_spark))
        self._step("How far behind is each consumer group?", *("sql", directory, BY_LAG, *on_spark))
        target = str(self.folder / "export")
        self._step(
            "One topic as Parquet, for other tools:",
            *("export", directory, "--topic", "payments", "--to", target, *on_spark),
        )

    def _step(self, words: str, *arguments: str) -> object:
        """Print what the step shows and its command, and run the command; returns its report, if any."""
        command = shlex.join(["stratalog", *arguments])
        self.output.say(f"\n{words}\n\n    $ {command}\n")
        sys.stderr.flush()
        inner = Output(is_plain=self.output.is_plain)
        with redirect_stdout(io.StringIO() if self.output.as_json else sys.stdout):
            status = self.root.main(
                args=list(arguments), prog_name="stratalog", obj=inner, standalone_mode=False
            )
            sys.stdout.flush()
        self.told.append(_Told(command=command, status=int(status or 0), report=inner.reported))
        return inner.reported

    def _end(self, logs: Path, page: Path, problems: list[str], planted: list[dict[str, object]]) -> ExitCode:
        if self.output.as_json:
            told = {"directory": str(logs), "page": str(page), "planted": planted, "problems": problems}
            self.output.show({**told, "steps": self._steps()})
        for problem in problems:
            self.output.say(problem)
        if problems:
            return ExitCode.FAILED
        self.output.say(
            f"\nThe audit found the planted damage in all {len(planted)} files, at the right bytes, and no "
            f"other damage in a log. Its report is {page}: open it in a browser. Go on with:\n\n"
            f"    stratalog du {shlex.quote(str(logs))}\n"
            f"    stratalog ls {shlex.quote(str(logs))} orders\n"
            f"    stratalog explain {shlex.quote(str(logs))}\n"
            f"    rm -r {shlex.quote(str(self.folder))}"
        )
        return ExitCode.FINE

    def _steps(self) -> list[dict[str, object]]:
        from stratalog.operations.report import Report

        return [
            {
                "command": each.command,
                "status": each.status,
                "report": each.report.to_document() if isinstance(each.report, Report) else None,
            }
            for each in self.told
        ]
