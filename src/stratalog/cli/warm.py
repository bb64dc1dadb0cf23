"""`stratalog warm`: compile the kernels ahead of time, and make Spark start faster."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass

import click

from stratalog.cli.output import Output, json_option
from stratalog.operations.report import Table
from stratalog.records.kernels.compiling import tell_compiling


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmKernel:
    """A kernel that is ready: compiled just now, or loaded from the cache folder."""

    name: str
    compiled_count: int
    loaded_count: int


@click.command()
@click.option(
    "--spark",
    is_flag=True,
    help="Also write an archive of the classes that Spark loads, so that Spark starts in half the time.",
)
@json_option
@click.pass_obj
def warm(output: Output, *, spark: bool) -> None:
    """Compile the kernels ahead of time.

    The first use of a kernel compiles it, which takes seconds; the machine code is then kept in a cache
    folder. Run this once after installing, as the user who will run the other commands.
    """
    output.say("Compiling kernels ...")
    began = time.perf_counter()
    from stratalog.cli.warming import warm_everything

    tell_compiling(None)  # the user was told above
    warm_everything()
    kernels = ready_kernels()
    document: dict[str, object] = {
        "kernels": [asdict(kernel) for kernel in kernels],
        "kernels_seconds": round(time.perf_counter() - began, 3),
    }
    if spark:
        output.say("Archiving Spark's classes ...")
        began = time.perf_counter()
        from stratalog.spark.archive import write_archive

        document["spark_archive"] = str(write_archive(os.environ))
        document["spark_seconds"] = round(time.perf_counter() - began, 3)

    rows = [[kernel.name, f"{kernel.compiled_count}", f"{kernel.loaded_count}"] for kernel in kernels]
    output.show(document, Table(title="Kernels", columns=["kernel", ">compiled", ">from cache"], rows=rows))
    output.say(f"{len(kernels)} kernels are ready after {document['kernels_seconds']} s.")
    if spark:
        output.say(
            f"The archive of Spark's classes is {document['spark_archive']}; it took "
            f"{document['spark_seconds']} s."
        )


def ready_kernels() -> list[WarmKernel]:
    """The kernels that this process has compiled or loaded, by name."""
    from stratalog.records.kernels.jit import kernels
    from stratalog.records.kernels.machine import counts_of

    ready = {}
    for kernel in kernels():
        compiled_count, loaded_count = counts_of(kernel)
        if compiled_count or loaded_count:
            name = f"{kernel.__module__.rpartition('.')[2]}.{kernel.__name__}"
            ready[name] = WarmKernel(name=name, compiled_count=compiled_count, loaded_count=loaded_count)
    return [ready[name] for name in sorted(ready)]
