"""`stratalog format`: what it says, what it refuses, what its options do. Brokers are in tests/kafka."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from stratalog import open_log
from stratalog.cli import main
from tests.config.test_quorum import SHIPPED
from tests.directory.formatting.forming import metadata_of
from tests.directory.lone import left_open, lone
from tests.jobs.writing.sinking import contents_of, names_in


@pytest.fixture
def data(tmp_path: Path) -> Path:
    lone(tmp_path / "data" / "orders-0", b"a")
    lone(tmp_path / "data" / "orders-2", b"b")
    return tmp_path / "data"


@pytest.fixture
def properties(tmp_path: Path, data: Path) -> Path:
    file = tmp_path / "server.properties"
    file.write_text(SHIPPED.replace("/tmp/kraft-combined-logs", f"{data},{tmp_path / 'second'}"))
    return file


def test_the_report_says_what_the_broker_needs(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["format", str(data), "--plain", "--node-id", "4", "--controller", "kafka-4:9094"]) == 0

    told = capsys.readouterr()
    lines = told.out.splitlines()
    assert "node.id\t4" in lines
    assert f"log.dirs\t{data}" in lines
    assert "controller.quorum.bootstrap.servers\tkafka-4:9094" in lines
    topic = next(line.split("\t") for line in lines if line.startswith("orders\t"))
    assert (topic[2], topic[3]) == ("3", "2")
    assert lines[-1].endswith("with 1 topic. The broker can be started.")
    assert "orders: of its 3 partitions, no directory has 1." in told.err
    command = f"`stratalog retain --dry-run {data} --config FILE`"
    assert f"When the broker's server.properties is written, {command} with that file shows which" in told.err


def test_the_retain_command_that_format_names_shows_what_a_broker_deletes(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_log(data / "old-0", create=True) as log:
        log.append(b"of 2001", timestamp=1_000_000_000_000)
    file = tmp_path / "its server.properties"
    file.write_text(SHIPPED.replace("/tmp/kraft-combined-logs", str(data)))
    assert main.run(["format", "--config", str(file)]) == 0
    (command,) = re.findall("`(stratalog retain .*?)` shows which", capsys.readouterr().err)

    assert main.run([*shlex.split(command)[1:], "--json"]) == 0

    found = capsys.readouterr()
    assert "not known" not in found.out + found.err
    assert json.loads(found.out)["totals"]["segments_deleted"] == 1


def test_json_has_all_of_it(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = tmp_path / "topics.json"
    settings.write_text('{"orders": {"cleanup.policy": "compact"}, "new": {}}')
    arguments = ["--topic-settings", str(settings), "--partitions", "new=2", "--json"]

    assert main.run(["format", str(data), "--dry-run", *arguments]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert main.run(["format", str(data), *arguments]) == 0
    done = json.loads(capsys.readouterr().out)

    assert (plan["dry_run"], plan["cluster_id"], plan["topics"][1]["topic_id"]) == (True, None, None)
    assert (done["dry_run"], done["may_start"], done["node_id"], done["release"]) == (False, True, 1, "4.3")
    assert done["totals"] == {
        "directories": 1,
        "topics": 2,
        "partitions": 5,
        "partitions_to_create": 3,
        "topic_ids_made": 2,
        "refusals": 0,
    }
    assert plan["totals"] == done["totals"]
    new, orders = done["topics"]
    assert (new["topic"], [part["directory"] for part in new["partitions"]]) == ("new", [None, None])
    assert orders["settings"] == {"cleanup.policy": "compact"}
    assert orders["partitions"][2] == {"partition": 2, "directory": str(data), "leader_epoch": 1}
    assert [part["leader_epoch"] for part in orders["partitions"]] == [1, 0, 1]
    assert done["server_properties"]["process.roles"] == "broker,controller"


def test_the_directories_of_a_server_properties_are_made_and_formatted(properties: Path, data: Path) -> None:
    second = data.with_name("second")

    assert main.run(["format", "--config", str(properties), "--cluster-id", "sEiga6BNSJaW_7X41bWJDQ"]) == 0

    for directory in (data, second):
        assert "cluster.id=sEiga6BNSJaW_7X41bWJDQ" in (directory / "meta.properties").read_text()
    assert not (second / "__cluster_metadata-0").exists()
    assert len(metadata_of(data).broker_directories[1]) == 2


def test_the_first_of_log_dirs_has_the_metadata_in_whatever_order_they_are_named(
    properties: Path, data: Path
) -> None:
    second = data.with_name("second")
    second.mkdir()

    assert main.run(["format", str(second), str(data), "--config", str(properties)]) == 0

    assert (data / "__cluster_metadata-0").exists()


def test_all_directories_of_a_broker_are_named_or_none(
    properties: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["format", str(data), "--config", str(properties)]) == 2

    assert "name all log directories of the broker, or none" in capsys.readouterr().err
    assert names_in(data) == ["orders-0", "orders-2"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--partitions", "orders"], "'orders' is not TOPIC=COUNT"),
        (["--partitions", "orders=two"], "'orders=two' is not TOPIC=COUNT"),
        (["--partitions", "orders=2"], "orders-2 exists. Give 3 or more"),
        (["--cluster-id", "mine"], "the cluster's id is 'mine'"),
        (["--controller", "localhost"], "it must be host:port"),
        (["--release", "2.8"], "'2.8' is not one of"),
        (["--node-id", "-1"], "-1 is not in the range"),
    ],
)
def test_wrong_options_are_usage_errors(
    data: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    before = contents_of(data)

    assert main.run(["format", str(data), *arguments]) == 2

    assert words in capsys.readouterr().err
    assert contents_of(data) == before


def test_what_is_refused_exits_with_3(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left_open(tmp_path / "killed" / "orders-0", b"a")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"")
    assert main.run(["format", str(data)]) == 0
    capsys.readouterr()

    for name, words in (
        ("data", "It is formatted already, as a directory of node 1"),
        ("killed", "Run `stratalog recover"),
        ("photos", "is not a log directory"),
    ):
        for more in ([], ["--dry-run"]):
            assert main.run(["format", str(tmp_path / name), *more]) == 3
            assert words in capsys.readouterr().err
    assert main.run(["format", str(tmp_path / "nowhere")]) == 2
    assert main.run(["format"]) == 2


def test_a_directory_on_which_no_broker_starts_exits_with_3(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "lost+found").mkdir()

    for more in (["--dry-run"], []):
        assert main.run(["format", str(data), "--plain", *more]) == 3
        assert f"must not be started yet: it refuses to start because of {data}/lost+found" in (
            capsys.readouterr().out
        )


def test_a_run_that_was_interrupted_at_its_end_says_that_it_is_finished(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = {
        "version": 0,
        "cluster_id": "sEiga6BNSJaW_7X41bWJDQ",
        "node_id": 1,
        "incarnation_id": "s38DPPefRHu4CKwEjdBcXA",
        "metadata_directory": str(data),
        "directories": {str(data): "hPi-51fnRTmFrG5XUmJD2Q"},
        "topics": {},
    }
    (data / "stratalog-format.json").write_text(json.dumps(identity))
    assert main.run(["format", str(data)]) == 0
    assert "directory.id=hPi-51fnRTmFrG5XUmJD2Q" in (data / "meta.properties").read_text()
    before = contents_of(data)
    (data / "stratalog-format.json").write_text(json.dumps(identity))
    capsys.readouterr()

    assert main.run(["format", str(data), "--plain"]) == 0

    assert "An earlier run was interrupted at its end" in capsys.readouterr().out
    assert contents_of(data) == before


def test_the_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "docs" / "format.md").read_text("utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)

    exec(compile(example, "format.md", "exec"), {})

    assert (tmp_path / "shop" / "meta.properties").exists()
