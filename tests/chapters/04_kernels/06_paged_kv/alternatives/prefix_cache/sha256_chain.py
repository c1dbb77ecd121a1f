"""Identity = (salt, chained SHA-256 digest of the tokens), as vLLM does; nothing is interned."""

from __future__ import annotations

import hashlib
from collections import OrderedDict, defaultdict
from collections.abc import Hashable, Sequence


class OutOfBlocks(Exception):
    """There are fewer free blocks than the operation needs. Nothing has changed."""


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
        self.block_size = block_size
        self.ref = defaultdict(int)
        self.queue = OrderedDict((i, True) for i in range(num_blocks))
        self.key = {}
        self.where = {}
        self.requests = {}
        self._stats = dict(queries=0, hits=0, evictions=0)

    def _digest(self, before: bytes, tokens) -> bytes:
        return hashlib.sha256(before + ",".join(str(int(t)) for t in tokens).encode()).digest()

    def _prefix(self, tokens, salt):
        keys = []
        digest = b""
        for i in range((len(tokens) - 1) // self.block_size):
            digest = self._digest(digest, tokens[i * self.block_size : (i + 1) * self.block_size])
            if (salt, digest) not in self.where:
                break
            keys.append((salt, digest))
        return keys

    def _acquire(self):
        block, _ = self.queue.popitem(last=False)
        if self.where.pop(self.key.pop(block, None), None) is not None:
            self._stats["evictions"] += 1
        self.ref[block] = 1
        return block

    def match(self, tokens: Sequence[int], salt: Hashable = None) -> int:
        """How many tokens of this prompt a start would find now. Changes nothing.

        That is block_size times the number of blocks, counted from the first, that are findable one after another; but
        at least the last token is left to compute (from what else would the logits of the next one come?), so the
        result is a multiple of block_size below len(tokens). 0 for an empty prompt.
        """
        return len(self._prefix(tokens, salt)) * self.block_size

    def start(self, seq: int, tokens: Sequence[int], salt: Hashable = None) -> int:
        """Admits a sequence with this prompt; returns how many of its tokens were found, as `match` counts them.

        The found blocks are held by one sequence more. For the rest of the prompt, a last part of a block included, new
        blocks are taken, in order of the table. ValueError for an empty prompt and for a sequence that is running.
        OutOfBlocks if the rest needs more blocks than the queue holds besides those found; then nothing has changed:
        no count, no place in the queue, no statistics.
        """
        if seq in self.requests:
            raise ValueError(f"sequence {seq} is running")
        if len(tokens) < 1:
            raise ValueError("the prompt is empty")
        keys = self._prefix(tokens, salt)
        found = [self.where[key] for key in keys]
        total = (len(tokens) - 1) // self.block_size + 1
        free = len(self.queue)
        free -= sum(block in self.queue for block in found)
        if total - len(found) > free:
            raise OutOfBlocks
        for block in found:
            if self.ref[block] == 0:
                del self.queue[block]
            self.ref[block] += 1
        while len(found) < total:
            found.append(self._acquire())
        self.requests[seq] = dict(
            tokens=[*tokens], salt=salt, table=found, done=len(keys), digest=keys[-1][1] if keys else b""
        )
        self._stats["queries"] += len(tokens)
        self._stats["hits"] += len(keys) * self.block_size
        return len(keys) * self.block_size

    def append(self, seq: int, token: int) -> None:
        """Adds a token that was generated. If all blocks of the sequence are full, it takes a new one for it.

        OutOfBlocks if it needs a block and none is free; the token is not added then.
        """
        r = self.requests[seq]
        if len(r["tokens"]) == self.block_size * len(r["table"]):
            if len(self.queue) == 0:
                raise OutOfBlocks
            r["table"].append(self._acquire())
        r["tokens"].append(token)

    def commit(self, seq: int, computed: int) -> None:
        """Keys and values of the sequence's first `computed` tokens, 0 <= computed <= its length, are in their blocks.

        Full blocks among these become findable, those of appended tokens as well. What was found at the start counts as
        computed, and a number below an earlier one says nothing new. Where another block is findable for the same
        identity (two sequences computed the same prompt at the same time), that one stays the findable one. The
        sequence keeps its own, which is not findable for good: later commits of this sequence do not try it again,
        even if the other block has been evicted. Its successors may become findable all the same.
        """
        r = self.requests[seq]
        for i in range(r["done"], computed // self.block_size):
            r["digest"] = self._digest(r["digest"], r["tokens"][i * self.block_size : (i + 1) * self.block_size])
            key = (r["salt"], r["digest"])
            if key not in self.where:
                self.where[key] = r["table"][i]
                self.key[r["table"][i]] = key
        r["done"] = max(r["done"], computed // self.block_size)

    def finish(self, seq: int) -> None:
        """The sequence ends. Blocks that no other sequence holds go to the end of the free queue, tail first."""
        for block in reversed(self.requests.pop(seq)["table"]):
            self.ref[block] -= 1
            if self.ref[block] == 0:
                self.queue[block] = True

    def table(self, seq: int) -> list[int]:
        """The blocks of a running sequence, in order of its tokens."""
        return self.requests[seq]["table"].copy()

    @property
    def num_free(self) -> int:
        """How many blocks have count zero, findable or not."""
        return len(self.queue)

    def stats(self) -> dict[str, int]:
        """Three numbers, from the beginning on.

        "queries": prompt tokens of all admitted starts. "hits": how many of these were found. "evictions": how often a
        block that was findable was taken for new contents.
        """
        return self._stats.copy()
