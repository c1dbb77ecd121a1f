"""Plain lists and counts, LIFO free list; one _plan for append and can_append; stats by a scan of all tables."""

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
        self.block_size = block_size
        self._free = list(range(num_blocks - 1, -1, -1))
        self._refs = [0] * num_blocks
        self._tables: dict[int, list[int]] = {}
        self._lengths: dict[int, int] = {}

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def _take(self) -> int:
        block = self._free.pop()
        self._refs[block] = 1
        return block

    def _drop(self, block: int) -> None:
        self._refs[block] -= 1
        if self._refs[block] == 0:
            self._free.append(block)

    def _plan(self, seq: int, tokens: int) -> tuple[bool, int]:
        """Whether the last block must be copied, and how many blocks must be added behind it."""
        table, length = self._tables[seq], self._lengths[seq]
        copy = length % self.block_size != 0 and self._refs[table[-1]] > 1
        return copy, self._blocks(length + tokens) - len(table)

    def create(self, seq: int, tokens: int) -> list[int]:
        """A new sequence with slots for `tokens` >= 0 tokens, in as few blocks as hold them. Returns its table.

        ValueError if the id exists. OutOfBlocks if there are too few free blocks.
        """
        if seq in self._tables:
            raise ValueError(f"sequence {seq} exists")
        need = self._blocks(tokens)
        if need > len(self._free):
            raise OutOfBlocks(f"{need} needed, {len(self._free)} free")
        self._tables[seq] = [self._take() for _ in range(need)]
        self._lengths[seq] = tokens
        return self.table(seq)

    def append(self, seq: int, tokens: int = 1) -> list[tuple[int, int]]:
        """Slots for `tokens` >= 1 more tokens, which are about to be written. Returns the copies to make before that.

        The slots left in the last block are filled first; new blocks are taken only for what does not fit there. If the
        new tokens start inside the last block (it is not full) while other tables hold it too, the sequence must not
        write there: it gets a free block in its place, [(shared block, own block)] is returned, and the shared block
        has one owner less. In all other cases the list is empty: a block that nobody is about to write to is never
        copied, however many share it.

        OutOfBlocks if the copy and the new blocks together need more blocks than are free.
        """
        copy, new = self._plan(seq, tokens)
        if copy + new > len(self._free):
            raise OutOfBlocks(f"{copy + new} needed, {len(self._free)} free")
        table = self._tables[seq]
        copies = []
        if copy:
            old = table[-1]
            table[-1] = self._take()
            self._drop(old)
            copies.append((old, table[-1]))
        for _ in range(new):
            table.append(self._take())
        self._lengths[seq] += tokens
        return copies

    def fork(self, parent: int, child: int) -> None:
        """A new sequence `child` with the parent's length and the parent's blocks; no block is taken or copied.

        ValueError if the child exists.
        """
        table = self._tables[parent]
        if child in self._tables:
            raise ValueError(f"sequence {child} exists")
        for block in table:
            self._refs[block] += 1
        self._tables[child] = table.copy()
        self._lengths[child] = self._lengths[parent]

    def free(self, seq: int) -> None:
        """Forgets the sequence. Blocks that no other table holds become free."""
        for block in self._tables.pop(seq):
            self._drop(block)
        del self._lengths[seq]

    def table(self, seq: int) -> list[int]:
        """The sequence's blocks in order, as a list of its own."""
        return list(self._tables[seq])

    def length(self, seq: int) -> int:
        """How many tokens the sequence has slots for."""
        return self._lengths[seq]

    def slot(self, seq: int, position: int) -> int:
        """The physical slot of a token, block * block_size + offset. IndexError unless 0 <= position < length."""
        length = self._lengths[seq]
        if not 0 <= position < length:
            raise IndexError(position)
        return self._tables[seq][position // self.block_size] * self.block_size + position % self.block_size

    def can_append(self, seq: int, tokens: int = 1) -> bool:
        """Whether append(seq, tokens) would succeed now. Changes nothing."""
        copy, new = self._plan(seq, tokens)
        return copy + new <= len(self._free)

    def truncate(self, seq: int, tokens: int) -> None:
        """Keeps the first `tokens` tokens (a speculation was rejected) and gives up the blocks that hold none of them.

        ValueError unless 0 <= tokens <= length. Truncated to 0, the sequence still exists.
        """
        table = self._tables[seq]
        if not 0 <= tokens <= self._lengths[seq]:
            raise ValueError(tokens)
        while len(table) > self._blocks(tokens):
            self._drop(table.pop())
        self._lengths[seq] = tokens

    @property
    def num_free(self) -> int:
        """How many blocks no table holds."""
        return len(self._free)

    def stats(self) -> dict[str, int]:
        """How well the memory is used, as a dictionary of three numbers.

        "physical": blocks that at least one table holds. "logical": the lengths of all tables, summed; what it is above
        "physical" is what sharing saves. "wasted": slots of the physical blocks that hold no token of any sequence. (A
        shared last block may hold more tokens of one sequence than of another, which was truncated.)
        """
        fill: dict[int, int] = {}
        for seq, table in self._tables.items():
            left = self._lengths[seq]
            for block in table:
                fill[block] = max(fill.get(block, 0), min(left, self.block_size))
                left -= self.block_size
        physical = len(self._refs) - len(self._free)
        return {
            "physical": physical,
            "logical": sum(map(len, self._tables.values())),
            "wasted": physical * self.block_size - sum(fill.values()),
        }
