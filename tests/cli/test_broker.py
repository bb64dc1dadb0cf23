"""What the command line and a server.properties say about a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.cli.broker import BrokerFiles
from stratalog.errors import UsageError
from tests.cli.recovering import run


def test_a_configuration_without_log_dirs_went_to_tmp_kafka_logs(
    tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=localhost:9092\n")

    assert run("--config", file) == 2
    assert f"{file} has neither log.dirs nor log.dir" in capsys.readouterr().err
    assert run("--config", file, killed) == 0


def test_directories_on_the_command_line_win_over_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"node.id=3\nlog.dirs={tmp_path}/a,{tmp_path}/b\nmetadata.log.dir={tmp_path}/m\n")

    both, one = BrokerFiles.of(file, ()), BrokerFiles.of(file, (f"{tmp_path}/./a",))

    assert both.directories == (f"{tmp_path}/a", f"{tmp_path}/b")
    assert (both.node_id, both.metadata_directory) == (3, f"{tmp_path}/m")
    assert (one.directories, one.not_named()) == ((f"{tmp_path}/./a",), [f"{tmp_path}/b"])


def test_a_broker_looks_for_metadata_in_the_first_of_its_directories(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"process.roles=broker, controller\nlog.dirs={tmp_path}/a,{tmp_path}/b\n")

    assert BrokerFiles.of(file, ()).metadata_place == f"{tmp_path}/a"
    assert BrokerFiles.of(file, (f"{tmp_path}/b",)).metadata_place == f"{tmp_path}/a"
    assert BrokerFiles.of(file, (f"{tmp_path}/copy",)).metadata_place is None
    assert BrokerFiles.of(None, (f"{tmp_path}/a",)).metadata_place is None
    assert BrokerFiles.of(file, ()).roles == ("broker", "controller")


def test_a_configuration_without_process_roles_had_one_role_without_a_name(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"broker.id=3\nlog.dirs={tmp_path}/a\n")

    assert BrokerFiles.of(file, ()).roles == ()


def test_without_a_file_and_a_directory_nothing_is_guessed() -> None:
    with pytest.raises(UsageError, match="name the log directories"):
        BrokerFiles.of(None, ())
