"""What a submission raised, as plain data."""

from __future__ import annotations

import traceback
from typing import Any

from grader.worker import landlock

_MESSAGE_LIMIT = 4000
_REACH = "while it is graded your code may read the system's files and write in its working folder, nothing else"


def describe(error: BaseException, filename: str) -> dict[str, Any]:
    """Type, message and the learner's own lines of a traceback, as plain data."""
    try:
        message = str(error)[:_MESSAGE_LIMIT]
    except BaseException:
        message = "(its message could not be made)"
    if isinstance(error, PermissionError) and landlock.is_in_force():
        message += f" ({_REACH})"
    description = {
        "type": type(error).__name__,
        "bases": [kind.__name__ for kind in type(error).__mro__],
        "message": message,
        "traceback": _own_lines(error, filename),
    }
    if isinstance(error, SyntaxError) and error.filename == filename:
        description["message"] = error.msg or "invalid syntax"
        description["traceback"] = "".join(traceback.format_exception_only(error)).rsplit("\n", 2)[0].rstrip()
    return description


def _own_lines(error: BaseException, filename: str) -> str:
    try:
        frames = [entry for entry in traceback.extract_tb(error.__traceback__) if entry.filename == filename]
    except BaseException:
        return ""
    if len(frames) > 12:
        skipped = len(frames) - 9
        shown: list[Any] = [*frames[:4], skipped, *frames[-5:]]
    else:
        shown = list(frames)
    lines = []
    for entry in shown:
        if isinstance(entry, int):
            lines.append(f"  ... {entry} more lines ...")
        else:
            lines.append(f'  File "{entry.filename}", line {entry.lineno}, in {entry.name}\n    {entry.line}')
    return "\n".join(lines)
