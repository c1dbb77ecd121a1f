"""Whose code is it that asks?"""

from __future__ import annotations

import os
from types import CodeType, FrameType

from grader.worker.own_code import is_made

EXECUTED = "<string>"
"""The file name of code that `exec`, `eval` and dataclasses make from strings: it belongs to whoever called it."""


class Callers:
    """Tells frames of the submission's file from all others."""

    def __init__(self, filename: str) -> None:
        self._files = {filename, os.path.realpath(filename)}

    def is_submission(self, frame: FrameType | None) -> bool:
        """Whether `frame` runs the submission's own code."""
        while frame is not None and frame.f_code.co_filename == EXECUTED and not is_made(frame.f_code):
            frame = frame.f_back
        return frame is not None and self.is_own(frame.f_code)

    def is_own(self, code: CodeType) -> bool:
        """Whether this is code of the submission's file, or code that the submission has made."""
        return code.co_filename in self._files or is_made(code)

    def line(self, frame: FrameType | None) -> int:
        """The submission's line that is being executed below `frame`; 0 if there is none."""
        while frame is not None and frame.f_code.co_filename not in self._files:
            frame = frame.f_back
        return frame.f_lineno if frame is not None else 0
