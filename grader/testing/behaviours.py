"""What to compare with a mistake where the answer itself is free, such as weights of the learner's own choosing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_recorded: list[Any] = []


def behaviour(value: Any) -> None:
    """Records how the submission's answer behaves; a mistake is named if it behaves alike, whatever it returned.

    >>> behaviour(logits.argmax(-1))
    """
    _recorded.append(value)


@contextlib.contextmanager
def recorded_behaviour() -> Iterator[list[Any]]:
    """For the judge: what a check records inside the block."""
    _recorded.clear()
    found: list[Any] = []
    try:
        yield found
    finally:
        found.extend(_recorded)
        _recorded.clear()
