"""The submission in the judge's own process, so that breakpoint() works (`--debug`). It protects against nothing."""

from __future__ import annotations

from typing import Any

from grader.judge.session import Session
from grader.worker.channel import Loopback
from grader.worker.server import Server


def session(options: dict[str, Any]) -> Session:
    """A session whose messages are function calls; values are packed and unpacked all the same."""
    loopback = Loopback()
    holder: list[Session] = []
    server = Server(lambda content: holder[0].answer(content))
    loopback.answer = server.handle
    found = Session(loopback, None, options, seconds=float("inf"))
    holder.append(found)
    found.load(isolated=False)
    return found
