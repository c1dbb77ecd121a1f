"""One call of a submission."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Call:
    """One call of the submission, and what came of it."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outcome: Any = None
    shared: list[Any] = field(default_factory=list)
