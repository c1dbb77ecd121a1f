"""A pristine process that forks workers.

It is started before the judge has read a single hidden test, imports the libraries once, and then only forks: a worker
starts in milliseconds, and nothing that the judge knows is in its memory. Inside a sandbox the same process runs under
bubblewrap.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import time
from types import SimpleNamespace
from typing import Any, NoReturn

from grader.worker import landlock, limits, main, wire


def send(control: socket.socket, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
    """Sends one small message, with open files."""
    content = json.dumps(message).encode() + b"\n"
    if descriptors:
        socket.send_fds(control, [content], list(descriptors))
    else:
        control.sendall(content)


def receive(control: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The next message and the files that came with it. Raises EOFError if the other end is gone."""
    content, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 4)
    while content and not content.endswith(b"\n"):
        more = control.recv(1 << 16)
        if not more:
            break
        content += more
    if not content:
        raise EOFError
    message: dict[str, Any] = json.loads(content)
    return message, list(descriptors)


def serve(control: socket.socket, kind: str) -> NoReturn:
    """Imports what `kind` needs, says "ready", and serves until the control socket closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limits.die_with_parent()
    try:
        main.preload(kind)
    except Exception as error:
        send(control, {"ready": False, "why": f"{type(error).__name__}: {error}"})
        os._exit(1)
    wire.remember_libraries()
    gc.collect()
    gc.freeze()
    send(control, {"ready": True})
    statuses: dict[int, int] = {}
    with contextlib.suppress(EOFError, OSError):
        while True:
            message, descriptors = receive(control)
            send(control, _answer(control, message, descriptors, statuses))
    os._exit(0)


def _answer(
    control: socket.socket, message: dict[str, Any], descriptors: list[int], statuses: dict[int, int]
) -> dict[str, Any]:
    action = message["do"]
    if action == "worker":
        return {"pid": _fork_worker(control, message, descriptors)}
    if action == "server":
        return {"pid": _fork_server(control, message, descriptors)}
    pid = message["pid"]
    if action == "usage":
        return _usage(pid)
    if action == "kill":
        # The worker leads a process group of its own, so that nothing it started survives it.
        for target in (os.killpg, os.kill) if message["signal"] == signal.SIGKILL else (os.kill,):
            with contextlib.suppress(OSError):
                target(pid, message["signal"])
        return {}
    return {"status": _wait(pid, message["seconds"], statuses)}


def _usage(pid: int) -> dict[str, Any]:
    """CPU seconds of a worker, and whether it is running or waiting for a processor; {} where there is no /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        return {"seconds": ticks / os.sysconf("SC_CLK_TCK"), "running": fields[0] in (b"R", b"D")}
    except (OSError, ValueError, IndexError):
        return {}


def _wait(pid: int, seconds: float, statuses: dict[int, int]) -> int | None:
    deadline = time.monotonic() + seconds
    while pid not in statuses:
        try:
            found, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return None
        if found:
            statuses[pid] = os.waitstatus_to_exitcode(status)
        elif time.monotonic() > deadline:
            return None
        else:
            time.sleep(0.002)
    return statuses[pid]


def _fork_worker(control: socket.socket, message: dict[str, Any], descriptors: list[int]) -> int:
    for name in message["imports"]:
        importlib.import_module(name)
    allowance = SimpleNamespace(**message["limits"])
    rules = landlock.rules(message["folder"], network=allowance.processes > 0)
    pid = os.fork()
    if pid:
        for descriptor in descriptors:
            os.close(descriptor)
        return pid
    try:
        connection, output = descriptors
        control.close()
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        main.connect_streams(output)
        os.close(output)
        os.chdir(message["folder"])
        os.environ.clear()
        os.environ.update(message["environment"])
        tempfile.tempdir = message["folder"]  # it was chosen before, by the judge, for the judge
        if rules is not None:
            landlock.restrict(rules)
            os.close(rules)
        limits.apply(allowance)
        main.serve(socket.socket(fileno=connection))
    finally:
        os._exit(1)


def _fork_server(control: socket.socket, message: dict[str, Any], descriptors: list[int]) -> int:
    pid = os.fork()
    if pid:
        os.close(descriptors[0])
        return pid
    try:
        control.close()
        os.environ.update(message["environment"])
        serve(socket.socket(fileno=descriptors[0]), message["kind"])
    finally:
        os._exit(1)


def entry() -> None:
    """`python -m grader.worker.forkserver FD KIND`: a fork server of its own, as inside a sandbox."""
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])


if __name__ == "__main__":
    entry()
