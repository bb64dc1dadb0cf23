"""A test that hangs is red and named, its stack is shown, and the run goes on or at least ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="there is no SIGALRM")

ROOT = Path(__file__).parent.parent
CONFTEST = "from tests.conftest import pytest_configure as pytest_configure\n"

# As if a thread was never stopped, or a peer never answers.
WAITS = """
import threading

import pytest

def wait():
    threading.Event().wait()

@pytest.fixture
def fixture():
    yield
    wait()

def test_that_waits():
    wait()

def test_whose_fixture_waits(fixture):
    pass

def test_after():
    pass
"""
# As in a kernel that does not end: no handler of a signal runs.
DEAF = """
import signal
import threading

def test_that_is_deaf():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    threading.Event().wait()
"""
LEFT_BEHIND = """
import threading

def test_that_leaves_a_thread_behind():
    threading.Thread(target=threading.Event().wait).start()
"""


def run(folder: Path, text: str, *options: str, limits: str = "") -> subprocess.CompletedProcess[str]:
    """pytest over one file of tests, each with two seconds: enough on a busy machine, unless it hangs."""
    (folder / "conftest.py").write_text(CONFTEST + limits)
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "/dev/null", "-q", *options]
    # This process may be a worker of pytest-xdist; the new one is not.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    environ = {**kept, "PYTHONPATH": str(ROOT), "STRATALOG_TEST_SECONDS": "2"}
    return subprocess.run(
        [*command, f"--rootdir={folder}", str(folder)],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_test_that_hangs_fails_with_its_stack_and_the_next_one_runs(tmp_path: Path) -> None:
    done = run(tmp_path, WAITS)

    assert done.returncode == 1
    assert "1 failed, 2 passed, 1 error" in done.stdout
    assert "HungError: the test did not end within 2 s" in done.stdout
    assert "test_it.py::test_that_waits did not end within 2 s" in done.stderr
    assert "in wait" in done.stderr


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "worker"])
def test_a_test_that_no_interrupt_reaches_ends_with_its_process(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    done = run(tmp_path, DEAF, *options, limits="from tests import watchdog\nwatchdog._GRACE_S = 0.5\n")

    assert done.returncode == 1
    assert "in test_that_is_deaf" in done.stderr
    if options:
        assert "crashed while running 'test_it.py::test_that_is_deaf'" in done.stdout


def test_a_thread_that_is_left_behind_does_not_keep_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, LEFT_BEHIND, limits="from tests import watchdog\nwatchdog._EXIT_S = 0.5\n")

    assert done.returncode == 1
    assert "1 passed" in done.stdout


def test_a_worker_without_more_tests_waits_for_the_others_in_peace(tmp_path: Path) -> None:
    slow = "import time\n\ndef test_slow():\n    time.sleep(1)\n\ndef test_quick():\n    pass\n"
    in_workers = "import os\nfrom tests import watchdog\n"
    in_workers += "if 'PYTEST_XDIST_WORKER' in os.environ:\n    watchdog._EXIT_S = 0.2\n"

    done = run(tmp_path, slow, "-n", "2", limits=in_workers)

    assert "Timeout" not in done.stdout + done.stderr
    assert "2 passed" in done.stdout
