"""A bytearray of owned slots searched with find(); paging with real tables and a free list; itertools."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile


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
    numbers = 0
    for _ in range(layers):
        if latent:
            numbers += latent + rope_dim
        else:
            numbers += kv_heads * head_dim + kv_heads * head_dim
    return numbers * itemsize


def _pow2(n):
    p = 1
    while p < n:
        p *= 2
    return p


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
    size = {"max": lambda final: max_len, "pow2": _pow2, "exact": lambda final: final}.get(policy)
    if size is None:
        raise ValueError(policy)
    memory = bytearray(capacity)  # 0 = free, 1 = owned
    where, tokens, finals = {}, {}, {}
    refused = refused_fragmented = 0
    for event in events:
        match event:
            case ("start", rid, prompt, final):
                if final > max_len:
                    raise ValueError("longer than max_len")
                n = size(final)
                at = memory.find(bytes(n))
                if at < 0:
                    refused += 1
                    if memory.count(0) >= n:
                        refused_fragmented += 1
                    continue
                memory[at : at + n] = b"\1" * n
                where[rid], tokens[rid], finals[rid] = (at, n), prompt, final
            case ("token", rid) if rid in where:
                tokens[rid] += 1
            case ("finish", rid) if rid in where:
                at, n = where.pop(rid)
                memory[at : at + n] = bytes(n)
    used = sum(tokens[r] for r in where)
    promised = sum(finals[r] for r in where)
    owned = memory.count(1)
    return Report(
        used=used,
        reserved=promised - used,
        internal=owned - promised,
        free=capacity - owned,
        largest_free=max(len(run) for run in memory.split(b"\1")),
        refused=refused,
        refused_fragmented=refused_fragmented,
        preempted=0,
    )


def paged(events: Sequence[tuple], capacity: int, block: int) -> Report:
    """Replays the trace under paging: the capacity is cut into capacity // block blocks, handed out as tokens arrive.

    A request owns just as many blocks as its tokens need: the prompt's at its start, and one more with a token
    event whenever its blocks are all full. A start that needs more blocks than are free is refused. A request that
    needs a block for its next token when none is free is preempted: it gives all its blocks back and no longer runs.
    (`final` plays no part.) Slots beyond the last whole block are never handed out: they count in `free`, but not in
    `largest_free`.
    """
    pool = list(range(capacity // block))
    tables, tokens = {}, {}
    refused = preempted = 0
    for kind, rid, *args in events:
        if kind == "start":
            n = math.ceil(args[0] / block)
            if n > len(pool):
                refused += 1
                continue
            tables[rid] = [pool.pop() for _ in range(n)]
            tokens[rid] = args[0]
            continue
        if rid not in tables:
            continue
        if kind == "token":
            if tokens[rid] == block * len(tables[rid]):
                if not pool:
                    pool.extend(tables.pop(rid))
                    preempted += 1
                    continue
                tables[rid].append(pool.pop())
            tokens[rid] += 1
        else:
            pool.extend(tables.pop(rid))
    owned = sum(map(len, tables.values())) * block
    used = sum(tokens[r] for r in tables)
    return Report(
        used=used,
        reserved=0,
        internal=owned - used,
        free=capacity - owned,
        largest_free=len(pool) * block,
        refused=refused,
        refused_fragmented=0,
        preempted=preempted,
    )


def max_sequences(memory: int, bytes_per_token: int, lengths: Sequence[int], block: int) -> int:
    """How many sequences of these lengths fit into `memory` bytes at the same time, in whole blocks of `block` tokens.

    They are admitted in order until the first that does not fit (a shorter one behind it does not count either). The
    memory holds as many whole blocks as fit, and no more. Exact for numbers of any size.
    """
    total = memory // bytes_per_token // block
    needed = accumulate(-(-n // block) for n in lengths)
    return sum(1 for _ in takewhile(lambda n: n <= total, needed))
