"""A Counter of blocks in use, fresh blocks from a watermark and recycled ones from a set."""

from __future__ import annotations

from collections import Counter


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
        self.num_blocks, self.block_size = num_blocks, block_size
        self.next_fresh = 0  # blocks from here on were never used
        self.recycled = set()
        self.count = Counter()  # only blocks in use
        self.state = {}  # seq -> (table, length)

    def _new(self):
        if self.recycled:
            block = self.recycled.pop()
        else:
            block = self.next_fresh
            self.next_fresh += 1
        self.count[block] += 1
        return block

    def _put(self, block):
        if self.count[block] > 1:
            self.count[block] -= 1
        else:
            del self.count[block]
            self.recycled.add(block)

    def create(self, seq: int, tokens: int) -> list[int]:
        """A new sequence with slots for `tokens` >= 0 tokens, in as few blocks as hold them. Returns its table.

        ValueError if the id exists. OutOfBlocks if there are too few free blocks.
        """
        if seq in self.state:
            raise ValueError(seq)
        n = (tokens + self.block_size - 1) // self.block_size
        if n > self.num_free:
            raise OutOfBlocks
        self.state[seq] = [self._new() for _ in range(n)], tokens
        return list(self.state[seq][0])

    def append(self, seq: int, tokens: int = 1) -> list[tuple[int, int]]:
        """Slots for `tokens` >= 1 more tokens, which are about to be written. Returns the copies to make before that.

        The slots left in the last block are filled first; new blocks are taken only for what does not fit there. If the
        new tokens start inside the last block (it is not full) while other tables hold it too, the sequence must not
        write there: it gets a free block in its place, [(shared block, own block)] is returned, and the shared block
        has one owner less. In all other cases the list is empty: a block that nobody is about to write to is never
        copied, however many share it.

        OutOfBlocks if the copy and the new blocks together need more blocks than are free.
        """
        if not self.can_append(seq, tokens):
            raise OutOfBlocks
        table, length = self.state[seq]
        copies = []
        if length % self.block_size and self.count[table[-1]] > 1:
            mine = self._new()
            self._put(table[-1])
            copies = [(table[-1], mine)]
            table[-1] = mine
        length += tokens
        while len(table) * self.block_size < length:
            table.append(self._new())
        self.state[seq] = table, length
        return copies

    def fork(self, parent: int, child: int) -> None:
        """A new sequence `child` with the parent's length and the parent's blocks; no block is taken or copied.

        ValueError if the child exists.
        """
        table, length = self.state[parent]
        if child in self.state:
            raise ValueError(child)
        self.count.update(table)
        self.state[child] = list(table), length

    def free(self, seq: int) -> None:
        """Forgets the sequence. Blocks that no other table holds become free."""
        self.truncate(seq, 0)
        del self.state[seq]

    def table(self, seq: int) -> list[int]:
        """The sequence's blocks in order, as a list of its own."""
        return list(self.state[seq][0])

    def length(self, seq: int) -> int:
        """How many tokens the sequence has slots for."""
        return self.state[seq][1]

    def slot(self, seq: int, position: int) -> int:
        """The physical slot of a token, block * block_size + offset. IndexError unless 0 <= position < length."""
        table, length = self.state[seq]
        if position not in range(length):
            raise IndexError(position)
        return table[position // self.block_size] * self.block_size + position % self.block_size

    def can_append(self, seq: int, tokens: int = 1) -> bool:
        """Whether append(seq, tokens) would succeed now. Changes nothing."""
        table, length = self.state[seq]
        end = (length + tokens + self.block_size - 1) // self.block_size
        first = length // self.block_size  # the block of the first new token
        if first < len(table) and self.count[table[first]] == 1:
            first += 1  # mine: no block needed for it
        return end - first <= self.num_free

    def truncate(self, seq: int, tokens: int) -> None:
        """Keeps the first `tokens` tokens (a speculation was rejected) and gives up the blocks that hold none of them.

        ValueError unless 0 <= tokens <= length. Truncated to 0, the sequence still exists.
        """
        table, length = self.state[seq]
        if not 0 <= tokens <= length:
            raise ValueError(tokens)
        while table and (len(table) - 1) * self.block_size >= tokens:
            self._put(table.pop())
        self.state[seq] = table, tokens

    @property
    def num_free(self) -> int:
        """How many blocks no table holds."""
        return self.num_blocks - len(self.count)

    def stats(self) -> dict[str, int]:
        """How well the memory is used, as a dictionary of three numbers.

        "physical": blocks that at least one table holds. "logical": the lengths of all tables, summed; what it is above
        "physical" is what sharing saves. "wasted": slots of the physical blocks that hold no token of any sequence. (A
        shared last block may hold more tokens of one sequence than of another, which was truncated.)
        """
        full = {}
        for table, length in self.state.values():
            for i, block in enumerate(table):
                full[block] = max(full.get(block, 0), min(self.block_size, length - i * self.block_size))
        return {
            "physical": len(self.count),
            "logical": sum(len(table) for table, _ in self.state.values()),
            "wasted": sum(self.block_size - n for n in full.values()),
        }
