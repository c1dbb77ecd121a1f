"""Sorted extent list with bisect and merging; paging by block counters and lengths only."""

from __future__ import annotations

import bisect
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
    per_layer = latent + rope_dim if latent > 0 else 2 * kv_heads * head_dim
    return layers * per_layer * itemsize


class _Extents:
    """Free extents, sorted [start, end) pairs."""

    def __init__(self, capacity):
        self.spans = [(0, capacity)] if capacity > 0 else []

    def total(self):
        return sum(e - s for s, e in self.spans)

    def largest(self):
        return max((e - s for s, e in self.spans), default=0)

    def take(self, n):
        for i, (s, e) in enumerate(self.spans):
            if e - s >= n:
                if e - s == n:
                    del self.spans[i]
                else:
                    self.spans[i] = (s + n, e)
                return s
        return None

    def give(self, s, n):
        e = s + n
        i = bisect.bisect_left(self.spans, (s, e))
        if i < len(self.spans) and self.spans[i][0] == e:
            e = self.spans.pop(i)[1]
        if i > 0 and self.spans[i - 1][1] == s:
            i -= 1
            s = self.spans.pop(i)[0]
        self.spans.insert(i, (s, e))


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
    if policy not in ("max", "pow2", "exact"):
        raise ValueError(f"unknown policy {policy!r}")
    heap = _Extents(capacity)
    running = {}  # id -> [start, run, used, final]
    refused = fragmented = 0
    for kind, rid, *rest in events:
        if kind == "start":
            prompt, final = rest
            if final > max_len:
                raise ValueError(f"{rid!r}: final {final} > max_len {max_len}")
            if policy == "max":
                run = max_len
            elif policy == "pow2":
                run = 1 << (final - 1).bit_length()
            else:
                run = final
            start = heap.take(run)
            if start is None:
                refused += 1
                fragmented += heap.total() >= run
            else:
                running[rid] = [start, run, prompt, final]
        elif rid in running:
            if kind == "token":
                running[rid][2] += 1
            else:
                start, run, _, _ = running.pop(rid)
                heap.give(start, run)
    used = sum(r[2] for r in running.values())
    reserved = sum(r[3] - r[2] for r in running.values())
    internal = sum(r[1] - r[3] for r in running.values())
    return Report(used, reserved, internal, heap.total(), heap.largest(), refused, fragmented, 0)


def paged(events: Sequence[tuple], capacity: int, block: int) -> Report:
    """Replays the trace under paging: the capacity is cut into capacity // block blocks, handed out as tokens arrive.

    A request owns just as many blocks as its tokens need: the prompt's at its start, and one more with a token
    event whenever its blocks are all full. A start that needs more blocks than are free is refused. A request that
    needs a block for its next token when none is free is preempted: it gives all its blocks back and no longer runs.
    (`final` plays no part.) Slots beyond the last whole block are never handed out: they count in `free`, but not in
    `largest_free`.
    """
    free = capacity // block
    length = {}
    refused = preempted = 0
    for kind, rid, *rest in events:
        if kind == "start":
            need = -(-rest[0] // block)
            if need > free:
                refused += 1
            else:
                free -= need
                length[rid] = rest[0]
        elif rid in length:
            if kind == "finish":
                free += -(-length.pop(rid) // block)
            elif length[rid] % block:
                length[rid] += 1
            elif free:
                free -= 1
                length[rid] += 1
            else:
                preempted += 1
                free += length.pop(rid) // block
    used = sum(length.values())
    internal = sum(-n % block for n in length.values())
    return Report(used, 0, internal, capacity - used - internal, free * block, refused, 0, preempted)


def max_sequences(memory: int, bytes_per_token: int, lengths: Sequence[int], block: int) -> int:
    """How many sequences of these lengths fit into `memory` bytes at the same time, in whole blocks of `block` tokens.

    They are admitted in order until the first that does not fit (a shorter one behind it does not count either). The
    memory holds as many whole blocks as fit, and no more. Exact for numbers of any size.
    """
    blocks = memory // (bytes_per_token * block)
    count = 0
    for n in lengths:
        blocks -= (n + block - 1) // block
        if blocks < 0:
            break
        count += 1
    return count
