"""What a worker left behind: what it printed, where it was stuck, how it ended."""

from __future__ import annotations

import os
import re
import signal

from grader.judge.errors import printable
from grader.judge.workers import Worker
from grader.worker.main import CONNECTION_LOST


def read_output(worker: Worker, limit: int) -> str:
    """New output of a worker; the middle of a flood is left out."""
    descriptor = worker.output.fileno()
    position = getattr(worker, "_read", 0)
    size = os.fstat(descriptor).st_size
    worker._read = size  # type: ignore[attr-defined]
    if size <= position:
        return ""
    if size - position <= limit:
        content = os.pread(descriptor, size - position, position)
    else:
        half = limit // 2
        head, tail = os.pread(descriptor, half, position), os.pread(descriptor, half, size - half)
        content = head + f"\n... {size - position - limit:,} bytes left out ...\n".encode() + tail
    return printable(content.decode(errors="replace"))


def stuck_at(dump: str, filename: str, source: str) -> str:
    """The submission's own lines of a faulthandler dump, outermost first, with their text."""
    lines = source.splitlines()
    found = re.findall(rf'File "{re.escape(filename)}", line (\d+) in (.+)', dump)
    shown = found[:4] if len(found) <= 8 else found[:4] + found[-2:]
    return "\n".join(
        f'  File "{filename}", line {number}, in {name}\n    {lines[int(number) - 1].strip()}'
        for number, name in reversed(shown)
        if int(number) <= len(lines)
    )


def how_it_ended(status: int | None) -> str:
    if status is None or status == CONNECTION_LOST:
        return "your code closed the connection to the grader (it must not close files that it did not open)"
    if status == 0:
        return "your code ended the process (os._exit or something like it) before it returned a result"
    if status > 0:
        return f"your code ended the process with exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    reasons = {
        "SIGSEGV": "your code crashed the process (SIGSEGV: it touched memory that is not there, or recursed too deep)",
        "SIGKILL": "the process that runs your code was killed (SIGKILL), most likely for using too much memory",
        "SIGXFSZ": "your code wrote more than the grader allows",
    }
    return reasons.get(name, f"your code crashed the process ({name})")
