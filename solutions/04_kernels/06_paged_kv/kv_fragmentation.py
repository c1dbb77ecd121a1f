"""Where the KV memory goes: a trace of requests replayed under contiguous allocation and under paging.

Everything is counted in slots; one slot holds the keys and values of one token in all layers.

A trace is a list of events, in order:

    ("start", id, prompt, final)    a request with `prompt` tokens arrives; `final` is the length it would grow to
    ("token", id)                   it grows by one token
    ("finish", id)                  it ends (perhaps before it reached `final`: a user hung up) and gives its slots back

An id is any hashable value and starts once; 1 <= prompt <= final, and no request grows beyond its `final`. A request
runs from its start on, if it was admitted, until it finishes (or is preempted). Events of an id that is not running
(refused, or preempted) do nothing.
"""

from __future__ import annotations

### BEGIN SOLUTION
from bisect import bisect

### END SOLUTION
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Report:
    """What has become of the slots after the last event: used + reserved + internal + free = capacity."""

    used: int
    """Slots that hold a token of a running request."""
    reserved: int
    """Slots that a running request owns and will still fill on its way to `final`. Paging: always 0."""
    internal: int
    """Slots that a running request owns and will never fill. Paging: the unfilled part of its last block."""
    free: int
    """Slots that nobody owns."""
    largest_free: int
    """Length of the longest run of free slots. Paging: all slots in free whole blocks, wherever these lie."""
    refused: int
    """Requests that were not admitted, up to now."""
    refused_fragmented: int
    """Of these, the ones for which enough slots were free in total, but in pieces too small. Paging: always 0."""
    preempted: int
    """Requests that were thrown out for want of a block, up to now. Contiguous: always 0."""


def kv_bytes_per_token(
    layers: int, *, kv_heads: int = 0, head_dim: int = 0, latent: int = 0, rope_dim: int = 0, itemsize: int = 2
) -> int:
    """Bytes that one token takes in the cache of all layers, itemsize bytes a value.

    Per layer, MHA, GQA and MQA keep a key and a value of head_dim numbers for each of kv_heads heads. With latent > 0
    the model is MLA (arXiv:2405.04434): per layer one compressed vector of `latent` numbers for keys and values
    together, and one rotated key of rope_dim numbers that all heads share; kv_heads and head_dim do not matter then.
    """
    ### BEGIN SOLUTION
    values = latent + rope_dim if latent else 2 * kv_heads * head_dim
    return layers * values * itemsize
    ### END SOLUTION


def contiguous(events: Sequence[tuple], capacity: int, policy: str, max_len: int) -> Report:
    """Replays the trace as servers did before paging: each request gets one run of neighbouring slots at its start.

    How long a run, says the policy:

        "max"     max_len, since nobody knows how long the answer will be
        "pow2"    final, rounded up to a power of two (3 -> 4, 4 -> 4), even where that is more than max_len
        "exact"   final itself: an oracle that knows the future

    Free extents are maximal runs of free slots: what a finished request gives back is at once one with the free
    slots on both sides of it. A request takes the first slots of the lowest free extent that is long enough, at
    first of one extent 0 ... capacity - 1. If no extent is long enough it is refused; if all free slots together
    would have been enough for its run, it is refused by external fragmentation.

    The prompt's tokens are used at once, every token event adds one. final > max_len: ValueError, under every policy;
    ValueError for a policy of another name. An empty trace is fine.
    """
    ### BEGIN SOLUTION
    extents = _Extents(capacity)
    running: dict = {}
    refused = fragmented = 0
    for kind, name, *lengths in events:
        if kind == "start":
            prompt, final = lengths
            size = _run_length(final, policy, max_len)
            start = extents.take(size)
            if start is not None:
                running[name] = _Run(start, size, prompt, final)
            else:
                refused += 1
                fragmented += size <= extents.total
        elif name in running:
            if kind == "token":
                running[name].tokens += 1
            else:
                run = running.pop(name)
                extents.give(run.start, run.size)
    runs = running.values()
    return Report(
        used=sum(run.tokens for run in runs),
        reserved=sum(run.final - run.tokens for run in runs),
        internal=sum(run.size - run.final for run in runs),
        free=extents.total,
        largest_free=extents.largest,
        refused=refused,
        refused_fragmented=fragmented,
        preempted=0,
    )
    ### END SOLUTION


### BEGIN SOLUTION
@dataclass
class _Run:
    """A running request and the slots start ... start + size - 1 that it owns."""

    start: int
    size: int
    tokens: int
    final: int


def _run_length(final: int, policy: str, max_len: int) -> int:
    if final > max_len:
        raise ValueError(f"a request of {final} tokens, but max_len is {max_len}")
    lengths = {"max": max_len, "pow2": 1 << (final - 1).bit_length(), "exact": final}
    if policy not in lengths:
        raise ValueError(f"policy {policy!r} is none of {', '.join(lengths)}")
    return lengths[policy]


class _Extents:
    """The free slots as a sorted list of (start, length), no two of which touch."""

    def __init__(self, capacity: int) -> None:
        self._free = [(0, capacity)] if capacity else []

    def take(self, size: int) -> int | None:
        for i, (start, length) in enumerate(self._free):
            if length >= size:
                self._free[i : i + 1] = [(start + size, length - size)] if length > size else []
                return start
        return None

    def give(self, start: int, length: int) -> None:
        i = bisect(self._free, (start, length))
        if i < len(self._free) and self._free[i][0] == start + length:
            length += self._free.pop(i)[1]
        if i > 0 and sum(self._free[i - 1]) == start:
            i -= 1
            before = self._free.pop(i)
            start, length = before[0], before[1] + length
        self._free.insert(i, (start, length))

    @property
    def total(self) -> int:
        return sum(length for _, length in self._free)

    @property
    def largest(self) -> int:
        return max((length for _, length in self._free), default=0)


### END SOLUTION


def paged(events: Sequence[tuple], capacity: int, block: int) -> Report:
    """Replays the trace under paging: the capacity is cut into capacity // block blocks, handed out as tokens arrive.

    A request owns just as many blocks as its tokens need: the prompt's at its start, and one more with a token
    event whenever its blocks are all full. A start that needs more blocks than are free is refused. A request that
    needs a block for its next token when none is free is preempted: it gives all its blocks back and no longer runs.
    (`final` plays no part.) Slots beyond the last whole block are never handed out: they count in `free`, but not in
    `largest_free`.
    """
    ### BEGIN SOLUTION
    free_blocks = capacity // block
    tokens: dict = {}  # of running requests; block numbers do not matter, since any free block will do
    refused = preempted = 0
    for kind, name, *lengths in events:
        if kind == "start":
            need = -(-lengths[0] // block)
            if need <= free_blocks:
                free_blocks -= need
                tokens[name] = lengths[0]
            else:
                refused += 1
        elif name not in tokens:
            continue
        elif kind == "finish":
            free_blocks += -(-tokens.pop(name) // block)
        elif tokens[name] % block:
            tokens[name] += 1
        elif free_blocks:
            free_blocks -= 1
            tokens[name] += 1
        else:
            free_blocks += tokens.pop(name) // block
            preempted += 1
    used = sum(tokens.values())
    owned = (capacity // block - free_blocks) * block
    return Report(
        used=used,
        reserved=0,
        internal=owned - used,
        free=capacity - owned,
        largest_free=free_blocks * block,
        refused=refused,
        refused_fragmented=0,
        preempted=preempted,
    )
    ### END SOLUTION


def max_sequences(memory: int, bytes_per_token: int, lengths: Sequence[int], block: int) -> int:
    """How many sequences of these lengths fit into `memory` bytes at the same time, in whole blocks of `block` tokens.

    They are admitted in order until the first that does not fit (a shorter one behind it does not count either). The
    memory holds as many whole blocks as fit, and no more. Exact for numbers of any size.
    """
    ### BEGIN SOLUTION
    free = memory // (bytes_per_token * block)
    for count, length in enumerate(lengths):
        free -= -(-length // block)
        if free < 0:
            return count
    return len(lengths)
    ### END SOLUTION
