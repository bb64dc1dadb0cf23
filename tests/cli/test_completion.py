"""`stratalog completion`: what a shell gets when somebody presses Tab."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.cli.completion import SHELLS, VARIABLE

bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
SHORT = "import sys; sys.argv[0] = 'stratalog'; from stratalog.cli.main import main; main()"


def completed(line: str) -> list[str]:
    """What bash is told about the last word of a line."""
    words = line.split(" ")
    environment = {
        VARIABLE: "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "PATH": "/usr/bin:/bin",
    }
    done = subprocess.run(
        [sys.executable, "-c", SHORT], env=environment, capture_output=True, text=True, check=True
    )
    return [found.partition(",")[2] for found in done.stdout.splitlines() if found]


def test_commands_and_options_are_completed() -> None:
    assert completed("stratalog com") == ["compact", "completion"]
    assert completed("stratalog recover --dry") == ["--dry-run"]


def test_topics_of_the_directories_on_the_line_are_completed(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-1", "others-0", "customers-0", "lost+found", "orders-2.a1b2-delete"):
        (tmp_path / name).mkdir()

    assert completed(f"stratalog explain {tmp_path} --topic o") == ["orders", "others"]
    assert completed(f"stratalog explain {tmp_path / 'nowhere'} --topic o") == []


@bash
@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["completion", shell]) == 0

    assert f"{VARIABLE}={shell}_complete" in capsys.readouterr().out


@bash
def test_bash_takes_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["completion", "bash"])

    script = capsys.readouterr().out + "\ncomplete -p stratalog"
    done = subprocess.run(["bash", "--norc"], input=script, capture_output=True, text=True, check=True)

    assert "_stratalog_completion" in done.stdout
