"""Torch's modes and hooks hold for one thread: this brings them into the threads that a submission starts."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any


@contextlib.contextmanager
def entered_in_new_threads(enter: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """Every thread started within the block runs inside a context `enter()` of its own."""
    kind: Any = threading.Thread
    original = kind._bootstrap_inner

    def inside(thread: threading.Thread) -> None:
        with enter():
            original(thread)

    kind._bootstrap_inner = inside
    try:
        yield
    finally:
        kind._bootstrap_inner = original
