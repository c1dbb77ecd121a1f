"""The time that a check may take, made fair to a busy machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from grader.worker.channel import Channel, TimeIsUp

if TYPE_CHECKING:
    from grader.judge.workers import Worker

LONGEST = 6.0
"""A machine that is busy with other things may stretch a limit by this factor, and no further."""


class Clock:
    """A limit in seconds by the wall, stretched while judge and worker have had less than that of a processor.

    A submission that sleeps or waits is stopped at the limit itself; only one that wants to run and is not let is given
    more. So a right program does not fail because the machine is busy, and an endless loop on an idle one ends on time.
    """

    def __init__(self, worker: Worker | None, seconds: float, until: float = float("inf")) -> None:
        self._worker = worker
        self._seconds = seconds
        began = time.monotonic()
        self._deadline = min(began + seconds, until)
        self.last = min(began + LONGEST * seconds, until)
        """No message takes longer than this."""
        self._used = self._usage()[0]

    def receive(self, channel: Channel) -> bytes:
        """The worker's next message. Raises TimeIsUp."""
        while True:
            try:
                return channel.receive(self._deadline)
            except TimeIsUp:
                used, running = self._usage()
                left = self._seconds - (used - self._used)
                if not running or left <= 0 or time.monotonic() >= self.last:
                    raise
                self._deadline = min(time.monotonic() + max(left, 0.2), self.last)

    def _usage(self) -> tuple[float, bool]:
        """(CPU seconds of judge and worker, whether the worker wants to run)."""
        usage = self._worker.host.usage(self._worker.pid) if self._worker is not None else None
        if usage is None:
            return time.process_time(), False
        return time.process_time() + usage[0], usage[1]
