"""Messages over a socket: eight bytes of length, then the content."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable

from grader.worker.wire import LARGEST_FRAME

_HEADER = struct.Struct("<Q")


class Closed(Exception):
    """The other end is gone."""


class TimeIsUp(Exception):
    """The deadline passed before a whole message had arrived."""


class Channel:
    """One end of the connection between judge and worker."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def send(self, content: bytes, deadline: float | None = None) -> None:
        """Sends one message; a deadline is a value of time.monotonic()."""
        try:
            self._socket.settimeout(_remaining(deadline))
            if len(content) < 1 << 16:
                self._socket.sendall(_HEADER.pack(len(content)) + content)
            else:
                self._socket.sendall(_HEADER.pack(len(content)))
                self._socket.sendall(content)
        except TimeoutError:
            raise TimeIsUp from None
        except OSError:
            raise Closed from None

    def has_message(self, deadline: float) -> bool:
        """Waits until something arrives (the end of the connection counts), or until the deadline."""
        left = max(0.0, deadline - time.monotonic())
        return bool(select.select([self._socket], [], [], None if left == float("inf") else left)[0])

    def receive(self, deadline: float | None = None) -> bytes:
        """The next message."""
        (size,) = _HEADER.unpack(self._exactly(_HEADER.size, deadline))
        if size > LARGEST_FRAME:
            raise Closed
        return bytes(self._exactly(size, deadline))

    def _exactly(self, size: int, deadline: float | None) -> bytearray:
        content = bytearray(size)
        view = memoryview(content)
        while view:
            try:
                self._socket.settimeout(_remaining(deadline))
                count = self._socket.recv_into(view)
            except TimeoutError:
                raise TimeIsUp from None
            except OSError:
                raise Closed from None
            if count == 0:
                raise Closed
            view = view[count:]
        return content

    def close(self) -> None:
        """Closes this end."""
        self._socket.close()


class Loopback:
    """Judge and worker in one process (`--debug`): a message is answered by a function call."""

    def __init__(self) -> None:
        self.answer: Callable[[bytes], bytes] | None = None

    def ask(self, content: bytes) -> bytes:
        """Hands a message to the other end and returns its answer."""
        if self.answer is None:
            raise Closed
        return self.answer(content)


def _remaining(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left == float("inf"):
        return None
    if left <= 0:
        raise TimeoutError
    return left
