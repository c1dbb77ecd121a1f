"""What memory holds, so that a write that no launch and no torch operation made is noticed.

Host code can reach the memory behind a tensor without torch: through `.numpy()`, ctypes and an address, a buffer. On a
GPU it could not, and a result written there is no kernel's work. So the contents of each storage are remembered
whenever a launch or an operation may have changed them, and compared before the next launch and at the call's end.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
from dataclasses import dataclass
from typing import Any

import torch

from grader.worker.kernels.memory import Memory, MemoryMap, storage_of

MOST_BYTES = 1 << 28
"""Storages larger than this are not compared."""


@dataclass(frozen=True)
class _Old:
    """A storage from before the call: a constant of the submission's, say."""

    nbytes: int
    content: bytes | None
    keep: Any


class Contents:
    """Remembers and compares the contents of one call's storages."""

    def __init__(self, memories: MemoryMap) -> None:
        self._memories = memories
        self._old: dict[int, _Old] = {}
        self.changed: list[Memory] = []
        """Storages with contents that nobody who may write put there, in the order in which that was noticed."""

    def begin(self) -> None:
        """Remembers what the arguments hold, and the other tensors that exist before the call."""
        for memory in self._memories:
            self.remember(memory)
        kinds = _kinds(torch.Tensor)
        for thing in gc.get_objects():
            if type(thing) in kinds:
                storage = storage_of(thing)
                if storage is not None and self._memories.at(thing) is None and storage.data_ptr() not in self._old:
                    base, nbytes = storage.data_ptr(), storage.nbytes()
                    self._old[base] = _Old(nbytes, fingerprint(base, nbytes), storage)

    def remember(self, memory: Memory) -> None:
        """A launch or an operation has written here: what it holds now is right."""
        memory.content = fingerprint(memory.base, memory.nbytes)

    def compare(self, memory: Memory) -> None:
        """Nobody should have written here since."""
        if memory.content is None:
            return
        now = fingerprint(memory.base, memory.nbytes)
        if now != memory.content:
            memory.content = now
            if memory not in self.changed:
                self.changed.append(memory)

    def compare_all(self) -> None:
        """At the end of the call."""
        for memory in self._memories:
            self.compare(memory)

    def adopt(self, tensor: torch.Tensor) -> Memory | None:
        """The memory of a tensor that is not known yet, if it is older than the call."""
        storage = storage_of(tensor)
        old = None if storage is None else self._old.get(storage.data_ptr())
        if storage is None or old is None or old.nbytes != storage.nbytes():
            return None
        memory = self._memories.add(tensor)
        if memory is not None:
            memory.content = old.content
            self.compare(memory)
        return memory


def fingerprint(base: int, nbytes: int) -> bytes | None:
    """A digest of the bytes at an address; None for too many."""
    if not 0 < nbytes <= MOST_BYTES:
        return None
    return hashlib.blake2b((ctypes.c_char * nbytes).from_address(base), digest_size=16).digest()


def _kinds(kind: type) -> set[type]:
    """A class and all that are derived from it: looking a type up is quicker than asking torch's metaclass."""
    derived: list[type] = type.__subclasses__(kind)
    return {kind}.union(*map(_kinds, derived))
