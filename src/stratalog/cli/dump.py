"""`stratalog dump`: Kafka's dump tool, line for line, with its flags; and files that the tool cannot read."""

from __future__ import annotations

import sys

import click

from stratalog.cli.dumping.options import Decoder, DumpOptions, FieldDecoder
from stratalog.cli.dumping.printer import Printer
from stratalog.cli.output import ExitCode, Output, json_option
from stratalog.limits import INT32_MAX

DEFAULT_MAX_MESSAGE_SIZE = 5 * 1024 * 1024
SAME_AS_KAFKA = 1  # Kafka's tool exits with 1 for every error, also for wrong usage


class _WrongUsage(click.UsageError):
    """Wrong usage, with the exit status of Kafka's tool."""

    exit_code = SAME_AS_KAFKA


class _DumpCommand(click.Command):
    """A command whose usage errors exit as in Kafka's tool, so that scripts can switch between the two."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise _WrongUsage(error.format_message(), ctx) from error


@click.command(cls=_DumpCommand)
@click.argument("paths", nargs=-1, metavar="[FILE|DIR]...")
@click.option("--files", default="", metavar="A,B,...", help="The files to dump, as in Kafka's tool.")
@click.option("--print-data-log", is_flag=True, help="Print keys and values too; every decoder implies it.")
@click.option("--deep-iteration", is_flag=True, help="Print the records of each batch.")
@click.option("--skip-record-metadata", is_flag=True, help="Print only keys and values.")
@click.option("--verify-index-only", is_flag=True, help="Compare indexes with the log; do not print entries.")
@click.option("--index-sanity-check", is_flag=True, help="Only run the sanity check of each index.")
@click.option(
    "--max-message-size",
    type=int,
    default=DEFAULT_MAX_MESSAGE_SIZE,
    help="Accepted for compatibility; batches of any size are read.",
)
@click.option("--max-bytes", type=int, default=INT32_MAX, help="Read only this many bytes of each .log.")
@click.option(
    "--key-decoder-class",
    is_flag=False,
    flag_value=FieldDecoder.STRING.value,
    help="Kafka's StringDecoder, IntegerDecoder, LongDecoder or DefaultDecoder.",
)
@click.option(
    "--value-decoder-class",
    is_flag=False,
    flag_value=FieldDecoder.STRING.value,
    help="The same for values.",
)
@click.option("--offsets-decoder", is_flag=True, help="The records are those of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="... of __transaction_state.")
@click.option("--cluster-metadata-decoder", is_flag=True, help="... of __cluster_metadata.")
@click.option("--remote-log-metadata-decoder", is_flag=True, help="... of __remote_log_metadata.")
@click.option("--share-group-state-decoder", is_flag=True, help="... of __share_group_state.")
@click.option(
    "--position",
    type=click.IntRange(min=0),
    default=0,
    metavar="BYTE",
    help="Where in a .log to begin: the first byte of a batch.",
)
@json_option
@click.pass_obj
def dump(
    output: Output,
    *,
    paths: tuple[str, ...],
    files: str,
    print_data_log: bool,
    deep_iteration: bool,
    skip_record_metadata: bool,
    verify_index_only: bool,
    index_sanity_check: bool,
    max_message_size: int,
    max_bytes: int,
    key_decoder_class: str | None,
    value_decoder_class: str | None,
    offsets_decoder: bool,
    transaction_log_decoder: bool,
    cluster_metadata_decoder: bool,
    remote_log_metadata_decoder: bool,
    share_group_state_decoder: bool,
    position: int,
) -> int:
    """Print what is in the files of a log directory.

    The lines, the flags and the exit status are those of Kafka 4.3.1's dump tool: 1 if something cannot be
    read, else 0, even with complaints. A DIR means all files in it and below it.
    """
    del max_message_size  # Kafka's tool needs it; here a batch may have any size
    if not paths and not files:
        raise _WrongUsage("Name files or directories to dump, or --files A,B,...")
    chosen = {
        Decoder.OFFSETS: offsets_decoder,
        Decoder.TRANSACTION_LOG: transaction_log_decoder,
        Decoder.CLUSTER_METADATA: cluster_metadata_decoder,
        Decoder.REMOTE_LOG_METADATA: remote_log_metadata_decoder,
        Decoder.SHARE_GROUP_STATE: share_group_state_decoder,
    }
    decoder = next((decoder for decoder, is_chosen in chosen.items() if is_chosen), Decoder.TEXT)
    has_classes = key_decoder_class is not None or value_decoder_class is not None
    print_data = print_data_log or has_classes or decoder is not Decoder.TEXT
    options = DumpOptions(
        deep=deep_iteration or print_data,
        print_data=print_data,
        skip_record_metadata=skip_record_metadata,
        verify_index_only=verify_index_only,
        index_sanity_check=index_sanity_check,
        max_bytes=max_bytes,
        decoder=decoder,
        key_decoder=_field_decoder("--key-decoder-class", key_decoder_class),
        value_decoder=_field_decoder("--value-decoder-class", value_decoder_class),
        position=position,
    )
    return _run(output, files, paths, options)


def _run(output: Output, files: str, paths: tuple[str, ...], options: DumpOptions) -> int:
    from stratalog.cli.dumping.files import dump_files
    from stratalog.cli.dumping.names import found_files, named_files
    from stratalog.files.reading import DiskReader

    disk = DiskReader()
    printer = Printer(sys.stdout.buffer, sys.stderr, as_json=output.as_json)
    try:
        wanted = [*named_files(files), *(file for path in paths for file in found_files(disk, path))]
        dump_files(disk, wanted, options, printer)
    finally:
        printer.flush()
        disk.close()
    return SAME_AS_KAFKA if printer.failed else ExitCode.FINE


def _field_decoder(option: str, name: str | None) -> FieldDecoder:
    if name is None:
        return FieldDecoder.STRING
    try:
        return FieldDecoder(name)
    except ValueError:
        known = ", ".join(decoder.value for decoder in FieldDecoder)
        raise _WrongUsage(
            f"{option} {name}: Java classes cannot be loaded here; use one of {known}."
        ) from None
