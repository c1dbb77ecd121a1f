"""Starting workers: forked from a pristine process, inside bubblewrap, or spawned where there is no fork."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from grader.course import Limits
from grader.worker import forkserver
from grader.worker.channel import Channel

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
"""One thread in judge and worker: with two, small operations on a busy machine can take 50 times as long."""

READY_SECONDS = 120
"""For importing torch on a slow disk."""


class CannotStart(Exception):
    """No worker can be started here; the message says why and what to do."""


@dataclass
class Worker:
    """A running worker as the judge sees it."""

    channel: Channel
    output: IO[bytes]
    """What it prints. An unlinked file that both ends hold open."""
    pid: int
    host: Host

    def signal(self, number: int) -> None:
        """Sends a signal; SIGKILL goes to everything that the worker started."""
        self.host.kill(self.pid, number)

    def end(self) -> int | None:
        """Kills it if need be and returns how it ended: an exit status, or minus the number of a signal."""
        status = self.host.wait(self.pid, 0.05)
        if status is None:
            self.signal(signal.SIGKILL)
            self.host.wait(self.pid, 2.0)
        self.channel.close()
        self.output.close()
        return status


class Host(Protocol):
    """Where workers are started."""

    def start(self, limits: Limits, imports: Sequence[str] = ()) -> Worker:
        """A new worker with these limits. `imports` are modules that its parent loads first, once for all workers."""
        ...

    def kill(self, pid: int, number: int) -> None:
        """Sends a signal to a worker."""
        ...

    def wait(self, pid: int, seconds: float) -> int | None:
        """Its exit status, or None if it still runs (or is not ours to ask about)."""
        ...

    def usage(self, pid: int) -> tuple[float, bool] | None:
        """(CPU seconds that a worker has used, whether it wants to run now), or None if that cannot be told here."""
        ...

    def close(self) -> None:
        """Ends everything that was started."""
        ...


class ForkHost:
    """Workers forked by a fork server, which has imported what the kind needs."""

    def __init__(
        self, kind: str, folder: str, control: socket.socket, process: subprocess.Popen[bytes] | int | None
    ) -> None:
        self.kind = kind
        self._folder = folder
        self._control = control
        self._process = process
        control.settimeout(READY_SECONDS)
        try:
            message, _ = forkserver.receive(control)
        except (EOFError, OSError):
            raise CannotStart(f"the process that starts {kind} workers did not come up") from None
        if not message["ready"]:
            raise CannotStart(f"no {kind} worker can be started: {message['why']}")

    def start(self, limits: Limits, imports: Sequence[str] = ()) -> Worker:
        here, there = socket.socketpair()
        output = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - the worker owns it
        # O_APPEND: a worker that seeks or truncates cannot make its own prints look like somebody else's.
        flags = os.O_RDWR | os.O_APPEND
        appending = (
            os.open(f"/proc/self/fd/{output.fileno()}", flags) if sys.platform == "linux" else os.dup(output.fileno())
        )
        message = {
            "do": "worker",
            "folder": self._folder,
            "environment": environment_of(self.kind, self._folder),
            "limits": asdict(limits),
            "imports": list(imports),
        }
        try:
            reply = self._ask(message, (there.fileno(), appending))
        finally:
            there.close()
            os.close(appending)
        return Worker(Channel(here), output, reply["pid"], self)

    def branch(self, kind: str) -> ForkHost:
        """A fork server for another kind, forked from this one so that common imports are paid once."""
        here, there = socket.socketpair()
        message = {"do": "server", "kind": kind, "environment": environment_of(kind, self._folder)}
        pid = self._ask(message, (there.fileno(),))["pid"]
        there.close()
        return ForkHost(kind, self._folder, here, pid)

    def kill(self, pid: int, number: int) -> None:
        with contextlib.suppress(CannotStart):
            self._ask({"do": "kill", "pid": pid, "signal": number})

    def wait(self, pid: int, seconds: float) -> int | None:
        try:
            status: int | None = self._ask({"do": "wait", "pid": pid, "seconds": seconds})["status"]
        except CannotStart:
            return None
        return status

    def usage(self, pid: int) -> tuple[float, bool] | None:
        try:
            reply = self._ask({"do": "usage", "pid": pid})
        except CannotStart:
            return None
        return (reply["seconds"], reply["running"]) if "seconds" in reply else None

    def _ask(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> dict[str, Any]:
        try:
            forkserver.send(self._control, message, descriptors)
            return forkserver.receive(self._control)[0]
        except (EOFError, OSError):
            raise CannotStart("the process that starts workers is gone; the submission may have killed it") from None

    def close(self) -> None:
        self._control.close()
        if isinstance(self._process, subprocess.Popen):
            self._process.kill()
            self._process.wait()
        elif self._process is not None:
            with contextlib.suppress(OSError):
                os.waitpid(self._process, 0)


def fork_host(kind: str, folder: str) -> ForkHost:
    """A fork server that is a fork of this process. Call it before anything secret is read."""
    here, there = socket.socketpair()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    pid = os.fork()
    if pid == 0:
        try:
            descriptor = there.detach()
            os.environ.update(environment_of(kind, folder))
            _close_all_but(descriptor)
            forkserver.serve(socket.socket(fileno=descriptor), kind)
        finally:
            os._exit(1)
    there.close()
    return ForkHost(kind, folder, here, pid)


def sandbox_host(kind: str) -> ForkHost:
    """A fork server under bubblewrap: no network, a read-only system, a private /tmp, its own processes."""
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None:
        raise CannotStart("--isolation sandbox needs bubblewrap (Debian, Ubuntu: apt install bubblewrap)")
    return fresh_host(kind, "/tmp", [bubblewrap, *sandbox_arguments()])


def fresh_host(kind: str, folder: str, within: Sequence[str] = ()) -> ForkHost:
    """A fork server in a Python process of its own, started through the command `within`."""
    here, there = socket.socketpair()
    command = [*within, sys.executable, "-m", "grader.worker.forkserver", str(there.fileno()), kind]
    process = subprocess.Popen(
        command,
        pass_fds=(there.fileno(),),
        env=environment_of(kind, folder) | {"PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    there.close()
    try:
        return ForkHost(kind, folder, here, process)
    except CannotStart as error:
        process.kill()
        why = (process.stderr.read() if process.stderr else b"").decode(errors="replace").strip().splitlines()
        raise CannotStart(f"{error}{': ' + why[-1] if why else ''}") from None


def sandbox_arguments() -> list[str]:
    """What a sandboxed worker may see: the system and Python, read-only, but neither home folders nor the course."""
    package = Path(__file__).parents[1]
    arguments = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"]
    for folder in ("/usr", "/bin", "/lib", "/lib64", "/sbin", "/etc/ld.so.cache", "/etc/alternatives", "/opt"):
        arguments += ["--ro-bind-try", folder, folder]
    arguments += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/dev/shm"]
    paths = {
        sys.prefix,
        sys.base_prefix,
        sys.exec_prefix,
        *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    }
    for path in sorted(filter(None, paths), key=len):
        arguments += ["--ro-bind-try", path, path]
    # Only the worker's half of the grader: the judge, the tests and the solutions do not exist in there.
    arguments += ["--tmpfs", str(package)]
    for name in ("worker", "__init__.py"):
        arguments += ["--ro-bind", str(package / name), str(package / name)]
    return [*arguments, "--chdir", "/tmp"]


class SpawnHost:
    """Each worker is a new Python process: the way of platforms without fork. Limits are those of wall time alone."""

    def __init__(self, kind: str, folder: str) -> None:
        self.kind = kind
        self._folder = folder
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, limits: Limits, imports: Sequence[str] = ()) -> Worker:
        here, there = socket.socketpair()
        output = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - the worker owns it
        command = [sys.executable, "-m", "grader.worker"]
        environment = (
            os.environ | environment_of(self.kind, self._folder) | {"PYTHONPATH": str(Path(__file__).parents[2])}
        )
        if sys.platform == "win32":
            # The size of a shared socket's description on Windows is fixed (WSAPROTOCOL_INFOW, 628 bytes).
            process = subprocess.Popen(
                [*command, "--share", "628", self.kind, self._folder],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
            )
            assert process.stdin is not None
            process.stdin.write(there.share(process.pid))
            process.stdin.flush()
        else:
            process = subprocess.Popen(
                [*command, "--fd", str(there.fileno()), self.kind, self._folder],
                pass_fds=(there.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        there.close()
        self._processes[process.pid] = process
        return Worker(Channel(here), output, process.pid, self)

    def kill(self, pid: int, number: int) -> None:
        if number != getattr(signal, "SIGKILL", number):
            return
        with contextlib.suppress(OSError):
            if sys.platform != "win32":
                os.killpg(pid, number)
            self._processes[pid].kill()

    def wait(self, pid: int, seconds: float) -> int | None:
        try:
            return self._processes[pid].wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def usage(self, pid: int) -> tuple[float, bool] | None:
        return None

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()


def environment_of(kind: str, folder: str) -> dict[str, str]:
    """The whole environment of a worker: nothing of the user's goes in."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": folder,
        "TMPDIR": folder,
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TRITON_CACHE_DIR": f"{folder}/triton",
        **THREADS,
    }
    if kind == "triton":
        environment["TRITON_INTERPRET"] = "1"
    return environment


def _close_all_but(keep: int) -> None:
    """Files that the judge's process had open are no business of a worker."""
    last = os.sysconf("SC_OPEN_MAX")
    if sys.platform == "linux":
        numbers = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    else:
        numbers = list(range(min(last, 4096)))
    for number in numbers:
        if number > 2 and number != keep:
            with contextlib.suppress(OSError):
                os.close(number)
