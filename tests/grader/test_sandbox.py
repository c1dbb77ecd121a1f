"""What a submission can reach in a sandbox: nothing but itself and the libraries."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.course import Limits
from grader.judge.errors import SubmissionError, WorkerDied
from grader.judge.hosts import Home, Hosts
from grader.judge.session import Session
from grader.judge.submission import Submission

SOURCE = """
import os, socket
def listed(path): return sorted(os.listdir(path))
def read(path): return open(path).read()
def write(path): open(path, "w").write("x")
def connect(): socket.create_connection(("127.0.0.1", 22), timeout=2)
def processes(): return [p for p in range(1, 40000) if os.path.exists(f"/proc/{p}/stat")]
def environment(): return dict(os.environ)
def kill(pid): os.kill(pid, 9)
def parent(): return os.getppid()
def fork(): return os.fork()
def answer(): return 42
"""


def bubblewrap_works() -> bool:
    command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    return shutil.which("bwrap") is not None and subprocess.run(command, capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not bubblewrap_works(), reason="bubblewrap is not installed or may not make namespaces")


@pytest.fixture(scope="module")
def submission() -> Iterator[Submission]:
    hosts = Hosts([])
    home = Home(hosts, "sandbox")
    options = {
        "filename": "/work/sandboxed.py",
        "source": SOURCE,
        "module": "sandboxed",
        "kind": "python",
        "forbid": [],
        "output_kib": 64,
    }
    submission = Submission(lambda: Session.open(home.start("python", Limits()), options, 60), lambda *_: [])
    submission.session.allow(600)
    yield submission
    submission.close()
    home.close()
    hosts.close()


def test_the_course_is_not_there(submission: Submission) -> None:
    package = Path(__file__).parents[2] / "grader"
    assert submission.listed(str(package)) == ["__init__.py", "worker"]
    for folder in ("tests", "solutions", "exercises"):
        with pytest.raises(SubmissionError):
            submission.listed(str(package.parent / folder))


def test_files_of_the_system_and_the_user_are_not_there(submission: Submission) -> None:
    for path in ("/etc/passwd", "/etc/shadow", "/var/log", str(Path.home() / ".ssh")):
        with pytest.raises(SubmissionError):
            submission.read(path)


def test_only_tmp_can_be_written_and_is_private(submission: Submission) -> None:
    with pytest.raises(SubmissionError):
        submission.write("/usr/trace")
    submission.write("/tmp/trace")
    assert not Path("/tmp/trace").exists()


def test_there_is_no_network(submission: Submission) -> None:
    with pytest.raises(SubmissionError) as caught:
        submission.connect()
    assert caught.value.is_a(OSError)


def test_other_processes_are_out_of_sight_and_reach(submission: Submission) -> None:
    assert len(submission.processes()) <= 4
    with pytest.raises((SubmissionError, WorkerDied)):
        submission.kill(submission.parent())
    with pytest.raises(SubmissionError):
        submission.fork()
    assert submission.answer() == 42


def test_the_users_environment_does_not_come_along(submission: Submission, monkeypatch: pytest.MonkeyPatch) -> None:
    names = set(submission.environment())
    assert {"PATH", "HOME", "OMP_NUM_THREADS"} <= names
    assert not {"USER", "LLM_BY_HAND_STATE", "PWD", "VIRTUAL_ENV"} & names
