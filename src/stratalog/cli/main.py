"""`stratalog`: the command line. Each command has its own file; only this one catches StratalogError."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from traceback import walk_tb
from typing import TextIO

import click

from stratalog.cli.compiling import CompileNotice
from stratalog.cli.entry import INTERRUPTED, STOPPED
from stratalog.cli.interrupts import raise_dropped_interrupts
from stratalog.cli.lazy import LazyCommands
from stratalog.cli.output import ExitCode, Output
from stratalog.errors import ConfigError, DiskError, StratalogError, UsageError
from stratalog.operations.words import sentence
from stratalog.records.kernels.compiling import tell_compiling, tell_uncached
from stratalog.version import __version__

COMMANDS = (
    "append",
    "audit",
    "bench",
    "cat",
    "compact",
    "completion",
    "demo",
    "doctor",
    "du",
    "dump",
    "erase",
    "estimate",
    "explain",
    "export",
    "format",
    "groups",
    "index",
    "ls",
    "manual",
    "offsets",
    "quarantine",
    "recover",
    "retain",
    "sql",
    "transactions",
    "warm",
)
_PACKAGE = "stratalog"
PIPE_CLOSED = 141  # the status that a shell reports for a process that a closed pipe has ended


@click.group(
    cls=LazyCommands,
    modules={name: f"stratalog.cli.{name}" for name in COMMANDS},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="stratalog", message="%(prog)s %(version)s")
def cli() -> None:
    """Read, check and write Kafka log directories, without a broker.

    Exit status: 0 if all is well; 1 if something was found; 2 for wrong usage; 3 if the command refused or
    failed.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit status."""
    # Imports make many objects and hardly any garbage: looking for it would take a tenth of their time.
    gc.set_threshold(200_000)
    # NumPy loads OpenBLAS, which nothing here uses. It starts a thread for each other core, and each of them
    # spins for 0.1 s before it sleeps.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.stderr is None:  # closed with 2>&-
        sys.stderr = _nowhere()
    raise_dropped_interrupts()
    status = run(sys.argv[1:] if arguments is None else arguments)
    _give_up_unwritten()
    # At its end, Python would look for garbage among all objects several times: 0.1 s with Arrow and Numba.
    gc.freeze()
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """The exit status of a command."""
    output = Output()
    if sys.stdout is None:  # closed with >&-; the next file that is opened would get its descriptor
        output.error(UsageError("standard output is closed: redirect it to a file, or to /dev/null."))
        return ExitCode.FAILED
    if sys.stderr.isatty():
        tell_compiling(CompileNotice(output.say))
    tell_uncached(lambda words: output.say(sentence(words)))
    try:
        status = _run(output, arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        return PIPE_CLOSED
    except OSError as error:
        if error.filename is not None or not _is_of_cli(error):  # not about stdout or stderr
            raise
        with suppress(OSError):
            output.error(_unwritable(error))
        return ExitCode.FAILED
    finally:
        tell_uncached(None)
    return status


def _run(output: Output, arguments: Sequence[str]) -> int:
    try:
        # Not standalone: click would exit with 1 after Ctrl-C, which here means that something was found.
        status = cli.main(args=list(arguments), prog_name="stratalog", obj=output, standalone_mode=False)
    except (UsageError, ConfigError) as error:
        output.error(error)
        return ExitCode.USAGE
    except StratalogError as error:
        output.error(error)
        return ExitCode.FAILED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        click.echo(STOPPED, err=True)
        return INTERRUPTED
    except SystemExit as ended:
        # Only click raises this: with 1 if the reader of a pipe has gone (`| head`), with 0 after it has
        # printed completions for a shell.
        return PIPE_CLOSED if ended.code else ExitCode.FINE
    return int(status or 0)


def _is_of_cli(error: OSError) -> bool:
    """Whether the error was raised for a command: only `stratalog.cli` writes to stdout and stderr."""
    names = (frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__))
    ours = [name for name in names if name.startswith(f"{_PACKAGE}.") or name == "__main__"]
    return not ours or ours[-1] == "__main__" or ours[-1].startswith(f"{_PACKAGE}.cli.")


def _unwritable(error: OSError) -> DiskError:
    reason = f"could not write to it: {error.strerror}. The output is not complete."
    return DiskError("standard output", reason)


def _give_up_unwritten() -> None:
    """Replace a stream that cannot be written: Python would try again at its exit, and exit with 120."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            setattr(sys, name, _nowhere())


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w")  # until the process ends


if __name__ == "__main__":
    main()
