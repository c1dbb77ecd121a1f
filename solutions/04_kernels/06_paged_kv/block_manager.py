"""Block tables with reference counts: the core of a paged server, with fork and copy-on-write.

The KV cache is an array of num_blocks * block_size slots, cut into physical blocks. A sequence has a table of blocks:
its token at position p lives in block table[p // block_size], at offset p % block_size. Several tables may hold the
same block; its count says how many do. This class only keeps the books. Whoever runs the model copies blocks when told
so, and writes keys and values to slots.
"""

from __future__ import annotations


class OutOfBlocks(Exception):
    """There are fewer free blocks than the operation needs. Nothing has changed."""


class BlockManager:
    """Hands out blocks 0 ... num_blocks - 1; which of the free ones it takes is up to you.

    Every operation either succeeds or raises and changes nothing: no table, no length, no count.
    KeyError: every method that takes an existing sequence (`seq`, `parent`) raises it for an unknown id. An id that was
    freed is unknown, and may be created again.

    Cost. append, slot and can_append take steps in proportion to tokens / block_size + 1, whatever the length of the
    sequence and the number of blocks and sequences: they never walk through a table or a list of free blocks, nor copy
    or shift one. fork takes time in proportion to the length of the table. (100,000 appends to a sequence of half a
    million blocks, with another half a million free, take about a second, not minutes.)

    Source: arXiv:2309.06180, sections 4.3 and 4.4.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        """num_blocks >= 0 blocks of block_size >= 1 slots, all of them free."""
        ### BEGIN SOLUTION
        self._block_size = block_size
        self._counts = [0] * num_blocks
        self._free = list(reversed(range(num_blocks)))  # a stack: the block freed last is the next to be taken
        self._tables: dict[int, list[int]] = {}
        self._lengths: dict[int, int] = {}
        ### END SOLUTION

    def create(self, seq: int, tokens: int) -> list[int]:
        """A new sequence with slots for `tokens` >= 0 tokens, in as few blocks as hold them. Returns its table,
        as a list of its own.

        ValueError if the id exists. OutOfBlocks if there are too few free blocks.
        """
        ### BEGIN SOLUTION
        if seq in self._tables:
            raise ValueError(f"sequence {seq} exists")
        need = self._blocks_for(tokens)
        if need > len(self._free):
            raise OutOfBlocks(f"{need} blocks needed, {len(self._free)} free")
        self._tables[seq] = [self._take() for _ in range(need)]
        self._lengths[seq] = tokens
        return list(self._tables[seq])
        ### END SOLUTION

    def append(self, seq: int, tokens: int = 1) -> list[tuple[int, int]]:
        """Slots for `tokens` >= 1 more tokens, which are about to be written. Returns the copies to make before that.

        The slots left in the last block are filled first; new blocks are taken only for what does not fit there. If the
        new tokens start inside the last block (it is not full) while other tables hold it too, the sequence must not
        write there: it gets a free block in its place, [(shared block, own block)] is returned, and the shared block
        has one owner less. In all other cases the list is empty: a block that nobody is about to write to is never
        copied, however many share it.

        OutOfBlocks if the copy and the new blocks together need more blocks than are free.
        """
        ### BEGIN SOLUTION
        copied, new = self._plan(seq, tokens)
        if copied + new > len(self._free):
            raise OutOfBlocks(f"{copied + new} blocks needed, {len(self._free)} free")
        table = self._tables[seq]
        copies = []
        if copied:
            shared, own = table[-1], self._take()
            self._give_up(shared)
            table[-1] = own
            copies.append((shared, own))
        table += [self._take() for _ in range(new)]
        self._lengths[seq] += tokens
        return copies
        ### END SOLUTION

    def fork(self, parent: int, child: int) -> None:
        """A new sequence `child` with the parent's length and the parent's blocks; no block is taken or copied.

        ValueError if the child exists.
        """
        ### BEGIN SOLUTION
        table = self._tables[parent]
        if child in self._tables:
            raise ValueError(f"sequence {child} exists")
        for block in table:
            self._counts[block] += 1
        self._tables[child] = list(table)
        self._lengths[child] = self._lengths[parent]
        ### END SOLUTION

    def free(self, seq: int) -> None:
        """Forgets the sequence. Blocks that no other table holds become free."""
        ### BEGIN SOLUTION
        for block in self._tables.pop(seq):
            self._give_up(block)
        del self._lengths[seq]
        ### END SOLUTION

    def table(self, seq: int) -> list[int]:
        """The sequence's blocks in order, as a list of its own."""
        ### BEGIN SOLUTION
        return list(self._tables[seq])
        ### END SOLUTION

    def length(self, seq: int) -> int:
        """How many tokens the sequence has slots for."""
        ### BEGIN SOLUTION
        return self._lengths[seq]
        ### END SOLUTION

    def slot(self, seq: int, position: int) -> int:
        """The physical slot of a token, block * block_size + offset. IndexError unless 0 <= position < length."""
        ### BEGIN SOLUTION
        if not 0 <= position < self._lengths[seq]:
            raise IndexError(f"position {position} of a sequence of {self._lengths[seq]} tokens")
        index, offset = divmod(position, self._block_size)
        return self._tables[seq][index] * self._block_size + offset
        ### END SOLUTION

    def can_append(self, seq: int, tokens: int = 1) -> bool:
        """Whether append(seq, tokens) would succeed now. Changes nothing."""
        ### BEGIN SOLUTION
        return sum(self._plan(seq, tokens)) <= len(self._free)
        ### END SOLUTION

    def truncate(self, seq: int, tokens: int) -> None:
        """Keeps the first `tokens` tokens (a speculation was rejected) and gives up the blocks that hold none of them.

        ValueError unless 0 <= tokens <= length. Truncated to 0, the sequence still exists.
        """
        ### BEGIN SOLUTION
        table = self._tables[seq]
        if not 0 <= tokens <= self._lengths[seq]:
            raise ValueError(f"{tokens} tokens of a sequence of {self._lengths[seq]}")
        keep = self._blocks_for(tokens)
        for block in table[keep:]:
            self._give_up(block)
        del table[keep:]
        self._lengths[seq] = tokens
        ### END SOLUTION

    @property
    def num_free(self) -> int:
        """How many blocks no table holds."""
        ### BEGIN SOLUTION
        return len(self._free)
        ### END SOLUTION

    def stats(self) -> dict[str, int]:
        """How well the memory is used, as a dictionary of three numbers.

        "physical": blocks that at least one table holds. "logical": entries (blocks) of all tables, summed, so that a
        block counts once for each table that holds it; what it is above "physical" is what sharing saves. "wasted":
        slots of the physical blocks that hold no token of any sequence. (A shared last block may hold more tokens of
        one sequence than of another, which was truncated.)
        """
        ### BEGIN SOLUTION
        filled: dict[int, int] = {}
        for seq, table in self._tables.items():
            for i, block in enumerate(table):
                tokens = min(self._lengths[seq] - i * self._block_size, self._block_size)
                filled[block] = max(filled.get(block, 0), tokens)
        return {
            "physical": len(filled),
            "logical": sum(map(len, self._tables.values())),
            "wasted": len(filled) * self._block_size - sum(filled.values()),
        }
        ### END SOLUTION

    ### BEGIN SOLUTION
    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self._block_size)

    def _plan(self, seq: int, tokens: int) -> tuple[bool, int]:
        """(whether the last block must be copied, how many blocks come on top) for an append."""
        table, length = self._tables[seq], self._lengths[seq]
        writes_to_last = length % self._block_size != 0
        copied = writes_to_last and self._counts[table[-1]] > 1
        return copied, self._blocks_for(length + tokens) - len(table)

    def _take(self) -> int:
        block = self._free.pop()
        self._counts[block] = 1
        return block

    def _give_up(self, block: int) -> None:
        self._counts[block] -= 1
        if self._counts[block] == 0:
            self._free.append(block)

    ### END SOLUTION
