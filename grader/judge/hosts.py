"""Which host starts the workers of which kind of exercise."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence

from grader.course import Limits
from grader.judge.workers import CannotStart, ForkHost, Host, SpawnHost, Worker, fork_host, fresh_host, sandbox_host

ISOLATIONS = ("process", "sandbox", "none")
_ORDER = ("python", "numpy", "torch")


class Hosts:
    """Starts hosts as they are needed. The first is forked at once, while this process knows nothing."""

    def __init__(self, kinds: Iterable[str]) -> None:
        self._folder = tempfile.mkdtemp(prefix="llm-by-hand-")
        self._hosts: dict[str, Host] = {}
        self._base = _base_of(kinds)
        if self._base == "torch":
            # Imported here and not only in the fork: the judge needs it too, and so it is paid for once.
            import torch

            torch.set_num_threads(1)
        elif self._base == "numpy":
            import numpy  # noqa: F401
        self._has_triton = "triton" in sys.modules
        if can_fork():
            self._hosts[self._base] = fork_host(self._base, self._folder)

    def of(self, kind: str) -> Host:
        """The host for a kind of exercise, or "compile" for Triton without its interpreter."""
        if kind in _ORDER and _ORDER.index(kind) <= _ORDER.index(self._base):
            kind = self._base
        if kind not in self._hosts:
            base = self._hosts.get(self._base)
            if not isinstance(base, ForkHost):
                self._hosts[kind] = SpawnHost(kind, self._folder)
            elif kind in ("triton", "compile") and self._has_triton:
                # Triton decides at its import whether it interprets; a fork could not change its mind.
                self._hosts[kind] = fresh_host(kind, self._folder)
            else:
                self._hosts[kind] = base.branch(kind)
        return self._hosts[kind]

    def close(self) -> None:
        """Ends all hosts and removes their folder."""
        for host in reversed(self._hosts.values()):
            host.close()
        self._hosts.clear()
        shutil.rmtree(self._folder, ignore_errors=True)


class Home:
    """Where one submission's workers are started: the common hosts, or a sandbox that no other submission shares."""

    def __init__(self, hosts: Hosts, isolation: str) -> None:
        if isolation not in ISOLATIONS:
            raise CannotStart(f"no isolation {isolation!r}; choose from {', '.join(ISOLATIONS)}")
        self._hosts = hosts
        self.isolation = isolation
        self._sandboxes: dict[str, Host] = {}

    def start(self, kind: str, limits: Limits, imports: Sequence[str] = ()) -> Worker:
        """A worker. A sandbox that the submission has broken is replaced once."""
        if self.isolation != "sandbox":
            return self._hosts.of(kind).start(limits, imports)
        if kind in self._sandboxes:
            with contextlib.suppress(CannotStart):
                return self._sandboxes[kind].start(limits, imports)
            self._sandboxes.pop(kind).close()
        self._sandboxes[kind] = sandbox_host(kind)
        return self._sandboxes[kind].start(limits, imports)

    def close(self) -> None:
        """Ends the sandboxes."""
        for host in self._sandboxes.values():
            host.close()
        self._sandboxes.clear()


def can_fork() -> bool:
    """Whether workers are forked here. On macOS a fork of a process that has used system libraries may crash."""
    return hasattr(os, "fork") and sys.platform != "darwin"


def _base_of(kinds: Iterable[str]) -> str:
    wanted = set(kinds)
    if wanted & {"torch", "triton", "cuda"}:
        return "torch"
    return "numpy" if "numpy" in wanted else "python"
