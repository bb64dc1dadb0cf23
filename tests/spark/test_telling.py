"""What a worker does to tell what it left out, by each of its ways."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from stratalog.jobs.reading.omissions import Omission, OmissionKind
from stratalog.spark.telling import SOCKET_NAME, ToldOmissions, tell_stderr, teller

OMISSION = Omission(
    topic="orders",
    partition=0,
    kind=OmissionKind.DAMAGE,
    first_offset=10,
    end_offset=20,
    why="its checksum is wrong.",
    size=100,
    path="/logs/orders-0/0.log",
)
OTHER = Omission(
    topic="orders", partition=1, kind=OmissionKind.LOSS, first_offset=0, end_offset=3, why="gone."
)


def address(path: Path | None) -> str:
    return json.dumps({"read": 0, "socket": None if path is None else str(path), "accumulator": None})


def test_a_read_that_nobody_listens_to_is_told_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    teller(None)(OMISSION)

    assert capsys.readouterr().err == f"stratalog: records were left out: {OMISSION}\n"


def test_so_is_what_the_driver_cannot_hear(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As on another machine, where there is no such socket; or its process has ended."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(closed / SOCKET_NAME))

    for path in (None, tmp_path / "nowhere" / SOCKET_NAME, closed / SOCKET_NAME):
        tell = teller(address(path))
        tell(OMISSION)
        tell(OTHER)

        assert capsys.readouterr().err.count("records were left out") == 2


@pytest.mark.parametrize("name", [SOCKET_NAME, "docker.sock"])
def test_a_socket_that_is_not_a_listeners_is_not_written_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Whoever writes a query sets options: they must not make a worker talk to other programs."""
    (tmp_path / "open").mkdir(mode=0o700)
    (tmp_path / "open").chmod(0o755 if name == SOCKET_NAME else 0o700)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "open" / name))
        other.listen()
        other.setblocking(False)

        teller(address(tmp_path / "open" / name))(OMISSION)

        with pytest.raises(BlockingIOError):
            other.accept()
    assert "records were left out" in capsys.readouterr().err


def test_a_workers_sum_has_each_omission_once() -> None:
    param = ToldOmissions()
    found = param.zero(frozenset())

    for each in (OMISSION, OTHER, OMISSION):
        found = param.addInPlace(found, frozenset([each]))

    assert found == {OMISSION, OTHER}


def test_the_drivers_sum_passes_them_on_and_keeps_none() -> None:
    heard: list[Omission] = []
    param = ToldOmissions(heard.append)

    assert param.addInPlace(frozenset(), frozenset([OMISSION])) == frozenset()
    assert heard == [OMISSION]


def test_a_line_is_written_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    tell_stderr(OTHER)

    assert "orders-1: offsets 0 to 2: gone." in capfd.readouterr().err
