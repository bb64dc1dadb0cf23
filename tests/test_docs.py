"""What the documents say is so: their code runs, their links lead somewhere, each command has its place."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from stratalog.cli import main
from stratalog.cli.main import cli
from tests.manager.running import fixture_copy
from tests.records import golden
from tests.test_readme import CONSOLE

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
ANY_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def named(document: Path) -> str:
    return str(document.relative_to(ROOT))


def commands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield prefix + name, command


COMMANDS = dict(commands(cli))


def test_the_examples_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = PYTHON_BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
    names: dict[str, object] = {}

    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)

    assert blocks


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_lead_somewhere(document: Path) -> None:
    text = ANY_BLOCK.sub("", document.read_text("utf-8"))
    targets = [target for target in LINK.findall(text) if "://" not in target]

    assert [target for target in targets if not (document.parent / target).exists()] == []


def headings(document: Path) -> set[str]:
    """The anchors of a page's headings, as they are made for its web page."""
    text = ANY_BLOCK.sub("", document.read_text("utf-8"))
    titles = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_into_a_page_lead_to_one_of_its_headings(document: Path) -> None:
    text = ANY_BLOCK.sub("", document.read_text("utf-8"))
    links = re.findall(r"\[[^\]]*\]\(([^):\s]*)#([^)]*)\)", text)

    missing = [
        f"{page}#{anchor}"
        for page, anchor in links
        if anchor not in headings(document.parent / page if page else document)
    ]
    assert missing == []


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_and_a_place_in_the_documents(name: str) -> None:
    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    section = re.search(rf"^## `stratalog {name}.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)

    assert COMMANDS[name].help
    assert section, f"docs/cli.md has no section for {name}"
    options = [
        parameter.opts[-1]
        for parameter in COMMANDS[name].params
        if isinstance(parameter, click.Option) and not parameter.hidden
    ]
    assert [option for option in options if f"`{option}" not in section[0]] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_its_test_file(name: str) -> None:
    callback = COMMANDS[name].callback
    assert callback is not None
    module = callback.__module__.rpartition(".")[2]
    assert (ROOT / "tests" / "cli" / f"test_{module}.py").exists()


def test_the_makefile_targets_that_documents_name_exist() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    mentioned = {
        target
        for document in DOCUMENTS
        for target in re.findall(r"`make ([a-z][a-z-]*)", document.read_text("utf-8"))
    }

    assert mentioned <= targets


@pytest.mark.parametrize(
    ("page", "message"), [("record-batch", golden.TWO_RECORDS), ("message-set", golden.V0_MESSAGE)]
)
def test_a_worked_example_is_what_kafka_writes(page: str, message: bytes) -> None:
    text = (ROOT / "docs" / "formats" / f"{page}.md").read_text(encoding="utf-8")
    example = text.rpartition("Worked example")[2]
    # The bytes are in groups; their meaning follows after two spaces or more.
    lines = [line.strip().partition("  ")[0] for line in example.splitlines() if line.startswith("    ")]

    assert bytes.fromhex("".join(lines)) == message


def crashed(name: str, directory: Path) -> None:
    """Make the directory that a page shows under this name; a real broker was killed there first."""
    fixture_copy("killed", directory)
    is_power_cut = name != "/srv/broker-01"
    half = (directory / "rolled-0" / "00000000000000000000.log").read_bytes()[:100]
    with (directory / "rolled-0" / "00000000000000000088.log").open("ab") as file:
        file.write(bytes(4096) if is_power_cut else half)
    if is_power_cut:
        log = directory / "idempotent-0" / "00000000000000000040.log"
        os.truncate(log, log.stat().st_size // 2)
    if name == "/srv/broker-03":
        (directory / "headers-0" / "partition.metadata").write_bytes(bytes(43))
        (directory / "recovery-point-offset-checkpoint").write_bytes(bytes(30))
        (directory / "lost+found").mkdir()


def without_times(text: str) -> list[str]:
    return [re.sub(r"in \d+\.\d s$", "in 0.1 s", line.rstrip()) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("page", "name", "status"),
    [
        ("which-crash", "/srv/broker-01", 1),
        ("which-crash", "/srv/broker-02", 1),
        ("recover", "/srv/broker-03", 3),
    ],
)
def test_a_page_shows_what_recover_prints_of_such_a_directory(
    page: str, name: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    ((command, wanted),) = [found for found in CONSOLE.findall(text) if name in found[0]]
    # Tables are as wide as the paths in them, so this one is as long.
    directory = Path(tempfile.mkdtemp(dir="/tmp", prefix="k"))
    monkeypatch.setenv("COLUMNS", "120")
    try:
        directory.rmdir()
        crashed(name, directory)

        assert main.run(shlex.split(command.replace(name, str(directory)))) == status

        told = capsys.readouterr()
        printed = without_times(told.out.replace(str(directory), name))
        assert [line for line in without_times(wanted) if line not in [*printed, "..."]] == []
        quoted = [
            " ".join(block.split())
            for block in re.findall(r"^(?:    --process-crash.*\n)(?:    .*\n)*", text, re.M)
        ]
        assert (" ".join(told.err.split()) in quoted) == bool(told.err)
        if status == 3:
            (directory / "lost+found").rmdir()
            assert main.run(shlex.split(command.replace(name, str(directory)))) == 0
    finally:
        shutil.rmtree(directory)


NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_each_promise_of_durability_names_a_test_that_exists() -> None:
    text = (ROOT / "docs" / "durability.md").read_text("utf-8")
    missing = [
        f"{path}::{name}"
        for path, name in NAMED_TEST.findall(text)
        if f"def {name}(" not in ((ROOT / path).read_text("utf-8") if (ROOT / path).exists() else "")
    ]
    assert missing == []
    assert len(NAMED_TEST.findall(text)) > 40


def test_no_promise_of_durability_is_without_a_test() -> None:
    text = (ROOT / "docs" / "durability.md").read_text("utf-8")
    proven = [
        table
        for table in text.split("\n\n")
        if table.startswith("|") and "| shown by |" in table.splitlines()[0]
    ]

    assert len(proven) == 4
    for table in proven:
        for row in table.splitlines()[2:]:
            assert NAMED_TEST.search(row), row


@pytest.mark.parametrize("command", ["index", "recover"])
def test_the_page_left_out_keys_that_differ_in_the_json_of_a_dry_run(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = fixture_copy("killed" if command == "recover" else "clean", tmp_path / "data")
    next(data.glob("rolled-0/*.index")).unlink()
    page = (ROOT / "docs" / "cli.md").read_text()
    table = page.partition("| key | in a dry run |\n|---|---|\n")[2].partition("\n\n")[0]
    named = {name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split("|")[1])}

    found = []
    for dry_run in (["--dry-run"], []):
        assert main.run([command, str(data), "--json", *dry_run]) in (0, 1)
        found.append(dict(_values(json.loads(capsys.readouterr().out))))

    planned, done = found
    differing = {key for key in planned.keys() | done.keys() if planned.get(key) != done.get(key)}
    assert ".verdict" in differing
    assert {key for key in differing if named.isdisjoint(key.split("."))} == set()


def _values(document: object, key: str = "") -> Iterator[tuple[str, object]]:
    """Each value of a document, with the names and numbers that lead to it."""
    if isinstance(document, dict | list):
        items = document.items() if isinstance(document, dict) else enumerate(document)
        for name, value in items:
            yield from _values(value, f"{key}.{name}")
    else:
        yield key, document
