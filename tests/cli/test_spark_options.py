"""Options of the commands that run on Spark."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from stratalog.cli.spark_options import decoding_options, read_options, source_options
from stratalog.errors import UsageError


@click.command()
@read_options
def show(
    headers: bool,
    batch_metadata: bool,
    committed: bool,
    options: dict[str, str],
    since: str | None,
    until: str | None,
    master: str,
) -> None:
    found = source_options(
        headers=headers, batch_metadata=batch_metadata, committed=committed, options=options
    )
    click.echo(sorted(found.items()))
    click.echo((since, until, master))


def test_flags_and_settings_become_options_of_the_source() -> None:
    shown = CliRunner().invoke(
        show, ["--headers", "--committed", "--option", "onCorruption=skip", "--option", "path=a=b"]
    )

    assert shown.output.splitlines() == [
        "[('includeHeaders', 'true'), ('isolation', 'read_committed'), "
        "('onCorruption', 'skip'), ('path', 'a=b')]",
        "(None, None, 'local[*]')",
    ]


@pytest.mark.parametrize("text", ["onCorruption", "=skip"])
def test_a_setting_without_a_name_or_a_value_is_wrong_usage(text: str) -> None:
    shown = CliRunner().invoke(show, ["--option", text])

    assert shown.exit_code == 2
    assert "is not NAME=VALUE" in shown.output


def test_what_is_given_by_a_flag_and_as_a_setting_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        source_options(
            headers=True, batch_metadata=False, committed=False, options={"IncludeHeaders": "false"}
        )

    assert str(caught.value) == (
        "IncludeHeaders is given twice, by --option and by an option of its own: leave one of them out."
    )


@pytest.mark.parametrize("second", ["onCorruption=fail", "oncorruption=fail"])
def test_of_a_setting_given_twice_the_first_was_dropped_without_a_word(second: str) -> None:
    shown = CliRunner().invoke(show, ["--option", "onCorruption=skip", "--option", second])

    assert shown.exit_code == 2
    assert f"{second.partition('=')[0]} is given twice: leave one of them out." in shown.output


@click.command()
@decoding_options
def decode(decoding: dict[str, str]) -> None:
    click.echo(sorted(decoding.items()))


def test_what_keys_and_values_are_becomes_options_of_the_source() -> None:
    shown = CliRunner().invoke(decode, ["--value", "confluent", "--value-reader", "8", "--key-schema", "k"])

    assert shown.output.strip() == str(
        [("keySchema", "k"), ("valueEncoding", "confluent"), ("valueReader", "8")]
    )
    assert CliRunner().invoke(decode, []).output.strip() == "[]"
    assert (
        "'protobuf' is not one of 'binary', 'utf8'"
        in CliRunner().invoke(decode, ["--key", "protobuf"]).output
    )
