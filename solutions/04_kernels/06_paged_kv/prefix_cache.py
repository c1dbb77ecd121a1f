"""Prefix caching: full blocks with the same tokens and the same history hold the same keys and values, so share them.

Blocks that nobody uses keep their contents until they are needed for something else: a request that comes back (the
next turn of a chat, the same system prompt) finds its beginning computed already.
"""

from __future__ import annotations

### BEGIN SOLUTION
from collections import OrderedDict

### END SOLUTION
from collections.abc import Hashable, Sequence

### BEGIN SOLUTION
from dataclasses import dataclass

### END SOLUTION


class OutOfBlocks(Exception):
    """There are fewer free blocks than the operation needs. Nothing has changed."""


### BEGIN SOLUTION
@dataclass
class _Running:
    """A sequence that was started and has not finished."""

    tokens: list[int]
    table: list[int]
    settled: int
    """Of so many of its blocks it is decided whether they are findable."""
    identity: int | tuple
    """The identity of the last of these, or the root's."""


### END SOLUTION
class PrefixCache:
    """A pool of blocks 0 ... num_blocks - 1 of block_size tokens, in which sequences share what they have in common.

    Identity. What a full block holds depends on its tokens and on all tokens before it. So the identity of a block is
    the pair (identity of the block before it, its block_size tokens); before the first block there is a root with the
    salt in it (a tenant, a LoRA adapter). Different salts share nothing; None is the salt of those who name none.
    Identity is a value, not a place: contents that were evicted and computed again, in whatever block, have their old
    identity, and successors that are still there are found behind them. Equal means equal: a hash may help to find
    a block, but two different contents (tokens are integers >= 0, of any size) must not be taken for one another
    because hash() gives the same number for them.

    A block is findable from the moment when `commit` says that its contents are computed, until it is given new
    contents. At most one block is findable for an identity.

    Free blocks. Each block counts the running sequences that hold it. Those with count zero stand in the free queue, at
    first all of them in any order. Blocks whose count falls to zero go to the end of the queue, findable or not, and
    stay findable if they were. Blocks of one sequence are queued tail first, its last block before its first:
    the head of a prefix, which most requests share, is evicted last. A new block is taken from the front of the queue,
    and only then forgets what it held. A hit takes a block out of the queue, wherever it stands.

    KeyError: append, commit, finish and table raise it for a sequence that is not running.

    Cost. start and match look at each token of the prompt a fixed number of times, although identities cover the whole
    history: twice the prompt, twice the work. Taking a hit out of the queue costs the same however long the queue is:
    20,000 hits in a queue of 200,000 blocks take about a second, not minutes.

    Source: arXiv:2309.06180, section 4.4, and vLLM's documentation of automatic prefix caching.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        """num_blocks >= 0, block_size >= 1."""
        ### BEGIN SOLUTION
        self._block_size = block_size
        self._counts = [0] * num_blocks
        self._queue: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))
        # Every pair (identity of the parent, tokens) gets a number when it is first seen, and that is its identity.
        self._identities: dict[tuple, int] = {}
        self._findable: dict[int, int] = {}  # identity -> block
        self._identity_of: dict[int, int] = {}  # findable block -> identity
        self._running: dict[int, _Running] = {}
        self._hits = self._queries = self._evictions = 0
        ### END SOLUTION

    def match(self, tokens: Sequence[int], salt: Hashable = None) -> int:
        """How many tokens of this prompt a start would find now. Changes nothing.

        That is block_size times the number of blocks, counted from the first, that are findable one after another; but
        at least the last token is left to compute (from what else would the logits of the next one come?), so the
        result is a multiple of block_size below len(tokens). 0 for an empty prompt.
        """
        ### BEGIN SOLUTION
        return len(self._lookup(tokens, salt)[0]) * self._block_size
        ### END SOLUTION

    def start(self, seq: int, tokens: Sequence[int], salt: Hashable = None) -> int:
        """Admits a sequence with this prompt; returns how many of its tokens were found, as `match` counts them.

        The prompt is a list or a tuple, and stays the caller's: the cache never changes it, and what becomes of it
        after the call does not matter.

        The found blocks are held by one sequence more. For the rest of the prompt, a last part of a block included, new
        blocks are taken, in order of the table. ValueError for an empty prompt and for a sequence that is running.
        OutOfBlocks if the rest needs more blocks than the queue holds besides those found; then nothing has changed:
        no count, no place in the queue, no statistics.
        """
        ### BEGIN SOLUTION
        if not tokens:
            raise ValueError("an empty prompt")
        if seq in self._running:
            raise ValueError(f"sequence {seq} is running")
        found, identity = self._lookup(tokens, salt)
        new = -(-len(tokens) // self._block_size) - len(found)
        left = len(self._queue) - sum(self._counts[block] == 0 for block in found)
        if new > left:
            raise OutOfBlocks(f"{new} blocks needed, {left} free")
        for block in found:
            if self._counts[block] == 0:
                del self._queue[block]
            self._counts[block] += 1
        table = found + [self._take() for _ in range(new)]
        self._running[seq] = _Running(list(tokens), table, len(found), identity)
        cached = len(found) * self._block_size
        self._hits += cached
        self._queries += len(tokens)
        return cached
        ### END SOLUTION

    def append(self, seq: int, token: int) -> None:
        """Adds a token that was generated. If all blocks of the sequence are full, it takes a new one for it.

        OutOfBlocks if it needs a block and none is free; the token is not added then.
        """
        ### BEGIN SOLUTION
        running = self._running[seq]
        if len(running.tokens) % self._block_size == 0:
            if not self._queue:
                raise OutOfBlocks("no free block")
            running.table.append(self._take())
        running.tokens.append(token)
        ### END SOLUTION

    def commit(self, seq: int, computed: int) -> None:
        """Keys and values of the sequence's first `computed` tokens, 0 <= computed <= its length, are in their blocks.

        Full blocks among these become findable, those of appended tokens as well. What was found at the start counts as
        computed, and a number below an earlier one says nothing new. Where another block is findable for the same
        identity (two sequences computed the same prompt at the same time), that one stays the findable one. The
        sequence keeps its own, which is not findable for good: later commits of this sequence do not try it again,
        even if the other block has been evicted. Its successors may become findable all the same.
        """
        ### BEGIN SOLUTION
        running = self._running[seq]
        for i in range(running.settled, computed // self._block_size):
            pair = self._pair(running.identity, running.tokens, i)
            identity = self._identities.setdefault(pair, len(self._identities))
            if identity not in self._findable:
                self._findable[identity] = running.table[i]
                self._identity_of[running.table[i]] = identity
            running.identity = identity
            running.settled = i + 1
        ### END SOLUTION

    def finish(self, seq: int) -> None:
        """The sequence ends. Blocks that no other sequence holds go to the end of the free queue, tail first."""
        ### BEGIN SOLUTION
        for block in reversed(self._running.pop(seq).table):
            self._counts[block] -= 1
            if self._counts[block] == 0:
                self._queue[block] = None
        ### END SOLUTION

    def table(self, seq: int) -> list[int]:
        """The blocks of a running sequence, in order of its tokens, as a list of its own."""
        ### BEGIN SOLUTION
        return list(self._running[seq].table)
        ### END SOLUTION

    @property
    def num_free(self) -> int:
        """How many blocks have count zero, findable or not."""
        ### BEGIN SOLUTION
        return len(self._queue)
        ### END SOLUTION

    def stats(self) -> dict[str, int]:
        """Three numbers, from the beginning on.

        "queries": prompt tokens of all admitted starts. "hits": how many of these were found. "evictions": how often a
        block that was findable was taken for new contents.
        """
        ### BEGIN SOLUTION
        return {"hits": self._hits, "queries": self._queries, "evictions": self._evictions}
        ### END SOLUTION

    ### BEGIN SOLUTION
    def _pair(self, parent: int | tuple, tokens: Sequence[int], i: int) -> tuple:
        return parent, tuple(tokens[i * self._block_size : (i + 1) * self._block_size])

    def _lookup(self, tokens: Sequence[int], salt: Hashable) -> tuple[list[int], int | tuple]:
        """(the findable blocks that a prompt begins with, identity of the last one)."""
        identity: int | tuple = ("root", salt)  # a tuple, so that no salt can pass for the number of a block
        found: list[int] = []
        for i in range((len(tokens) - 1) // self._block_size):
            number = self._identities.get(self._pair(identity, tokens, i))
            if number not in self._findable:
                break
            identity = number
            found.append(self._findable[number])
        return found, identity

    def _take(self) -> int:
        block, _ = self._queue.popitem(last=False)
        self._counts[block] = 1
        if block in self._identity_of:
            del self._findable[self._identity_of.pop(block)]
            self._evictions += 1
        return block

    ### END SOLUTION
