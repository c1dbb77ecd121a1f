"""Messages over a socket: eight bytes of length, then the content."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable

from grader.worker.wire import LARGEST_FRAME

_HEADER = struct.Struct("<Q")
_PIECE = 1 << 16
"""Bytes that are asked for at once; a message that is smaller arrives whole and is not copied together."""


class Closed(Exception):
    """The other end is gone."""


class TimeIsUp(Exception):
    """The deadline passed before a whole message had arrived."""


class Channel:
    """One end of the connection between judge and worker."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._timeout = sock.gettimeout()
        self._arrived = bytearray()
        """What has come of messages that nobody has received yet."""

    def send(self, content: bytes, deadline: float | None = None) -> None:
        """Sends one message; a deadline is a value of time.monotonic()."""
        header = _HEADER.pack(len(content))
        try:
            self._wait_until(deadline)
            if len(content) < _PIECE:
                self._socket.sendall(header + content)
            else:
                self._socket.sendall(header)
                self._socket.sendall(content)
        except (TimeoutError, BlockingIOError):
            raise TimeIsUp from None
        except OSError:
            raise Closed from None

    def receive(self, deadline: float | None = None) -> bytes:
        """The next message. Nothing of it is lost if TimeIsUp is raised: another call goes on where this one ended."""
        arrived = self._arrived
        if not arrived:
            piece = self._read(_PIECE, deadline)
            if len(piece) >= _HEADER.size and len(piece) - _HEADER.size == _size(piece):
                return piece[_HEADER.size :]
            arrived += piece
        while len(arrived) < _HEADER.size:
            arrived += self._read(_PIECE, deadline)
        end = _HEADER.size + _size(arrived)
        while len(arrived) < end:
            arrived += self._read(min(max(end - len(arrived), _PIECE), 16 * _PIECE), deadline)
        content = bytes(memoryview(arrived)[_HEADER.size : end])
        del arrived[:end]
        return content

    def _read(self, most: int, deadline: float | None) -> bytes:
        try:
            self._wait_until(deadline)
            piece = self._socket.recv(most)
        except (TimeoutError, BlockingIOError):
            raise TimeIsUp from None
        except OSError:
            raise Closed from None
        if not piece:
            raise Closed
        return piece

    def _wait_until(self, deadline: float | None) -> None:
        """Sets how long the next operation may wait; with 0 seconds it takes what is there."""
        timeout = None
        if deadline is not None and deadline != float("inf"):
            timeout = max(0.0, deadline - time.monotonic())
        if timeout != self._timeout:
            self._timeout = timeout
            self._socket.settimeout(timeout)

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


def _size(content: bytes | bytearray) -> int:
    size: int = _HEADER.unpack_from(content)[0]
    if size > LARGEST_FRAME:
        raise Closed
    return size
