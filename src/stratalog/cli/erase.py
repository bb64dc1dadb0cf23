"""`stratalog erase`: rewrite a stopped broker's logs without the records with given keys or offsets."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterator
from pathlib import Path

import click

from stratalog.cli.options import (
    Request,
    change_options,
    config_option,
    directories_argument,
    now_option,
    topic_settings_option,
    unclean_choice,
)
from stratalog.cli.output import ExitCode, Output, output_options
from stratalog.cli.spark_options import engine_option, started_engine


@click.command(short_help="Erase keys or offsets from the files of a stopped broker.")
@directories_argument
@click.option(
    "--topic",
    "names",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Erase from this topic or partition; repeatable.",
)
@config_option
@topic_settings_option
@click.option(
    "--key", "keys", multiple=True, metavar="KEY", help="Erase the records with this key; repeatable."
)
@click.option(
    "--key-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Erase the records whose key is in this file, one key on each line.",
)
@click.option(
    "--key-format",
    type=click.Choice(["text", "hex", "base64"]),
    default="text",
    show_default=True,
    help="How keys are written.",
)
@click.option(
    "--offsets", multiple=True, metavar="LIST", help="Erase these offsets of a partition, as in 5,8-12."
)
@click.option(
    "--quarantine",
    "quarantines",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Also search this directory, where `recover --quarantine` keeps the bytes that it cut off; "
    "repeatable.",
)
@change_options
@engine_option
@now_option
@output_options
@click.pass_obj
def erase(
    output: Output,
    *,
    directories: tuple[str, ...],
    names: tuple[str, ...],
    keys: tuple[str, ...],
    key_file: Path | None,
    key_format: str,
    offsets: tuple[str, ...],
    quarantines: tuple[str, ...],
    dry_run: bool,
    recovers: bool,
    master: str | None,
    config: Path | None,
    topic_settings: Path | None,
    now: int | None,
) -> ExitCode:
    """Permanently erase records from the log directories of a stopped broker.

    Name log directories of one broker, as DIR or with --config. All segments with such records are rewritten,
    the active one too; all other records keep their offsets. The old files, files that wait for their
    deletion, and copies in quarantine are deleted once the new files are verified. stratalog-erased.jsonl in
    DIR records what was done. Erase on every replica.

    Exit status: 0 if everything was done or there was nothing to erase; 1 if --recover cut something off or
    found something; 2 for wrong usage; 3 if something was refused or failed, or a broker will not start here.
    """
    from stratalog.log.cleaning.erase_selection import Selection
    from stratalog.operations.erase.erasure import Erasure

    request = Request.of(directories, config, topic_settings, now)
    wanted = [_parse_key(key, key_format) for key in (*map(os.fsencode, keys), *_lines(key_file))]
    ranges = [found for text in offsets for found in _parse_offsets(text)]
    selection = Selection.of(wanted, ranges)
    with started_engine(output, "erase", master) as engine, output.progress() as on_progress:
        erasure = Erasure(
            directories=request.directories,
            names=names,
            selection=selection,
            quarantines=quarantines,
            sources=request.sources,
            dry_run=dry_run,
            unclean=unclean_choice(recovers),
            engine=engine,
            clock=request.clock,
        )
        report = erasure.run(on_progress)
    return output.report(report)


def _lines(path: Path | None) -> Iterator[bytes]:
    """The keys in a file. An empty line is not a key; --key can give an empty key."""
    data = b"" if path is None else path.read_bytes()
    for line in data.split(b"\n"):
        if key := line.removesuffix(b"\r"):
            yield key


def _parse_key(key: bytes, key_format: str) -> bytes:
    if key_format == "text":
        return key
    try:
        return base64.b64decode(key, validate=True) if key_format == "base64" else binascii.unhexlify(key)
    except (binascii.Error, ValueError):
        # The message does not repeat the key: it may be the very data that is to be erased.
        raise click.BadParameter(f"a key of {len(key)} characters is not {key_format}.") from None


def _parse_offsets(text: str) -> Iterator[tuple[int, int]]:
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part, re.ASCII)
        if found is None:
            raise click.BadParameter(f"{part!r} are not offsets: write 5, or 8-12, with commas between them.")
        yield int(found[1]), int(found[2] or found[1])
