"""The worker's life: answer the judge's messages until the connection closes."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
import sys
from typing import NoReturn

from grader.worker import wire
from grader.worker.channel import Channel, Closed
from grader.worker.server import Server

REQUEST, REPLY, CALLBACK, ANSWER = b"Q", b"R", b"C", b"A"

CONNECTION_LOST = 97
"""Exit status of a worker that can no longer reach the judge."""


def serve(sock: socket.socket) -> NoReturn:
    """Serves one submission on this socket and ends the process."""
    channel = Channel(sock)

    def ask(content: bytes) -> bytes:
        channel.send(CALLBACK + content)
        while True:
            message = channel.receive()
            if message[:1] == ANSWER:
                return message[1:]
            channel.send(REPLY + server.handle(message[1:]))

    server = Server(ask)
    wire.remember_libraries()
    # The judge sends this signal to a worker that is out of time, to learn which line it is stuck in.
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, all_threads=False)
    with contextlib.suppress(Closed):
        while True:
            channel.send(REPLY + server.handle(channel.receive()[1:]))
    # Not sys.exit: threads of the submission's that never end must not keep the process.
    os._exit(CONNECTION_LOST)


def connect_streams(output: int) -> None:
    """Makes standard output and error the given file and standard input empty."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(null)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - lives as long as the process
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


def main() -> None:
    """Entry of a spawned worker (where there is no fork): the socket arrives as file descriptor or shared handle."""
    which, value, kind, folder = sys.argv[1:5]
    # On Windows the parent shares the socket with this process through its standard input.
    shared = which == "--share"
    sock = socket.fromshare(sys.stdin.buffer.read(int(value))) if shared else socket.socket(fileno=int(value))  # type: ignore[attr-defined]
    os.chdir(folder)
    preload(kind)
    serve(sock)


def preload(kind: str) -> None:
    """Imports what submissions of this kind need, before any submission is there."""
    if kind in ("numpy", "torch", "triton", "compile"):
        import numpy  # noqa: F401
    if kind in ("torch", "triton", "compile"):
        import torch

        torch.set_num_threads(1)
    if kind == "triton":
        # Also proves that the interpreter can be watched, before any verdict rests on it.
        from grader.worker.kernels.selftest import selftest

        selftest()
    if kind == "compile":
        import triton  # noqa: F401


if __name__ == "__main__":
    main()
