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
    raise NotImplementedError("4.6/kv_fragmentation: write kv_bytes_per_token")


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
    raise NotImplementedError("4.6/kv_fragmentation: write contiguous")


def paged(events: Sequence[tuple], capacity: int, block: int) -> Report:
    """Replays the trace under paging: the capacity is cut into capacity // block blocks, handed out as tokens arrive.

    A request owns just as many blocks as its tokens need: the prompt's at its start, and one more with a token
    event whenever its blocks are all full. A start that needs more blocks than are free is refused. A request that
    needs a block for its next token when none is free is preempted: it gives all its blocks back and no longer runs.
    (`final` plays no part.) Slots beyond the last whole block are never handed out: they count in `free`, but not in
    `largest_free`.
    """
    raise NotImplementedError("4.6/kv_fragmentation: write paged")


def max_sequences(memory: int, bytes_per_token: int, lengths: Sequence[int], block: int) -> int:
    """How many sequences of these lengths fit into `memory` bytes at the same time, in whole blocks of `block` tokens.

    They are admitted in order until the first that does not fit (a shorter one behind it does not count either). The
    memory holds as many whole blocks as fit, and no more. Exact for numbers of any size.
    """
    raise NotImplementedError("4.6/kv_fragmentation: write max_sequences")
