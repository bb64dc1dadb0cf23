"""`stratalog export`: log directories to Parquet or another format, each record once."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stratalog.cli.broker import BrokerFiles
from stratalog.cli.options import (
    check_directories,
    check_span,
    config_option,
    directories_argument,
    gone_option,
)
from stratalog.cli.output import ExitCode, Output, output_options
from stratalog.cli.spark_options import (
    decoding_options,
    parse_settings,
    read_options,
    source_options,
    started_spark,
)
from stratalog.operations.report import Report, Status, Table
from stratalog.operations.words import size_text

if TYPE_CHECKING:
    from stratalog.jobs.export import ExportReport


@click.command(short_help="Export records to Parquet, CSV or JSON.")
@directories_argument
@config_option
@click.option(
    "--to",
    "target",
    required=True,
    metavar="FOLDER",
    help="The target: a new folder, or that of an earlier export.",
)
@click.option(
    "--topic",
    "names",
    multiple=True,
    metavar="NAME",
    help="Export only this topic; repeatable. Default: all but Kafka's internal topics.",
)
@gone_option("--topics", "--topic, which can be given several times")
@click.option(
    "--format",
    "format_name",
    default="parquet",
    show_default=True,
    help="A file format of Spark, such as json or csv.",
)
@click.option("--columns", metavar="A,B,...", help="Only these columns.")
@decoding_options
@click.option(
    "--codec",
    type=click.Choice(["snappy", "zstd", "gzip", "lz4", "none"]),
    default="snappy",
    show_default=True,
    help="How Parquet is compressed.",
)
@click.option(
    "--writer-option",
    "writer_options",
    multiple=True,
    metavar="NAME=VALUE",
    callback=parse_settings,
    help="An option of Spark's writer, such as header=true for csv.",
)
@read_options
@output_options
@click.pass_obj
def export(
    output: Output,
    *,
    directories: tuple[str, ...],
    target: str,
    config: Path | None,
    names: tuple[str, ...],
    format_name: str,
    columns: str | None,
    decoding: dict[str, str],
    codec: str,
    writer_options: dict[str, str],
    since: int | None,
    until: int | None,
    headers: bool,
    batch_metadata: bool,
    committed: bool,
    options: dict[str, str],
    master: str,
) -> ExitCode:
    """Export records to Parquet, or another format, in folders by topic and day.

    A second run finishes an interrupted one and takes only new records: each record is exported once.

    Exit status: 0 if everything was exported; 1 if a key or a value could not be decoded, or records were
    left out (--option onCorruption=skip); 2 for wrong usage; 3 if the command refused or failed.
    """
    check_span(since, until)
    broker = BrokerFiles.of(config, directories)
    check_directories(directories)
    asked = source_options(
        headers=headers,
        batch_metadata=batch_metadata,
        committed=committed,
        decoding=decoding,
        options=options,
    )
    from stratalog.spark.session import require_pyspark

    require_pyspark()
    from stratalog.spark.export import export as export_on_spark
    from stratalog.spark.export import prepare_export

    arguments: dict[str, Any] = {
        "format": format_name,
        "topics": ",".join(names) or None,
        "since": since,
        "until": until,
        "columns": None if columns is None else [name.strip() for name in columns.split(",")],
        "writer_options": writer_options,
        **asked,
    }
    prepare_export(broker.directories, **arguments)  # reports a wrong request before Spark starts
    with (
        started_spark(output, "stratalog export", master) as spark,
        output.progress("Exporting ") as on_progress,
        warnings.catch_warnings(),
    ):
        from stratalog.jobs.reading.omissions import OmissionWarning

        warnings.simplefilter("ignore", OmissionWarning)  # the report has them
        report = export_on_spark(
            spark, broker.directories, target, codec=codec, on_progress=on_progress, **arguments
        )
    return output.report(ExportShown(exported=report, folder=target))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportShown(Report):
    """The report of an export to a folder.

    Keys or values that could not be decoded are findings, and so are records that were left out.
    """

    exported: ExportReport
    folder: str

    @property
    def status(self) -> Status:
        has_findings = self.exported.undecoded or self.exported.omissions
        return Status.FINDINGS if has_findings else Status.FINE

    @property
    def verdict(self) -> str:
        if not self.exported.rows and self.exported.omissions:
            return f"No records were exported to {self.folder}, and it lacks the records that were left out."
        if not self.exported.rows:
            return f"{self.folder} already has all records."
        return f"{self.exported.rows:,} rows were exported to {self.folder}."

    def tables(self) -> list[Table]:
        found = self.exported
        return [
            Table(
                title="",
                columns=[">rows", ">files", ">size", ">partitions", ">not decoded", ">offsets left out"],
                rows=[
                    [
                        f"{found.rows:,}",
                        f"{found.files}",
                        size_text(found.size),
                        f"{found.partitions}",
                        f"{found.undecoded:,}",
                        f"{sum(each.offsets_count for each in found.omissions):,}",
                    ]
                ],
            )
        ]

    def words(self) -> list[str]:
        words = []
        if self.exported.taken_up:
            words.append("This run first finished an earlier one that had been stopped.")
        if self.exported.undecoded:
            words.append(
                "The bytes that could not be decoded are in the columns undecodedKey and undecodedValue, and "
                "the reasons are in undecodedKeyReason and undecodedValueReason."
            )
        if self.exported.omissions:
            from stratalog.jobs.reading.omissions import summary

            words.append(summary(self.exported.omissions))
        return words

    def totals(self) -> dict[str, int]:
        found = self.exported
        return {
            "rows": found.rows,
            "files": found.files,
            "bytes": found.size,
            "partitions": found.partitions,
            "undecoded": found.undecoded,
            "offsets_left_out": sum(each.offsets_count for each in found.omissions),
            "bytes_left_out": sum(each.size for each in found.omissions),
        }

    def to_document(self) -> dict[str, object]:
        omissions = [each.to_json() for each in self.exported.omissions]
        return {**asdict(self.exported), "omissions": omissions, "folder": self.folder}
