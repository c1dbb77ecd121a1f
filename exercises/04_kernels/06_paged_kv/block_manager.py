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
        raise NotImplementedError("4.6/block_manager: write BlockManager.__init__")

    def create(self, seq: int, tokens: int) -> list[int]:
        """A new sequence with slots for `tokens` >= 0 tokens, in as few blocks as hold them. Returns its table,
        as a list of its own.

        ValueError if the id exists. OutOfBlocks if there are too few free blocks.
        """
        raise NotImplementedError("4.6/block_manager: write BlockManager.create")

    def append(self, seq: int, tokens: int = 1) -> list[tuple[int, int]]:
        """Slots for `tokens` >= 1 more tokens, which are about to be written. Returns the copies to make before that.

        The slots left in the last block are filled first; new blocks are taken only for what does not fit there. If the
        new tokens start inside the last block (it is not full) while other tables hold it too, the sequence must not
        write there: it gets a free block in its place, [(shared block, own block)] is returned, and the shared block
        has one owner less. In all other cases the list is empty: a block that nobody is about to write to is never
        copied, however many share it.

        OutOfBlocks if the copy and the new blocks together need more blocks than are free.
        """
        raise NotImplementedError("4.6/block_manager: write BlockManager.append")

    def fork(self, parent: int, child: int) -> None:
        """A new sequence `child` with the parent's length and the parent's blocks; no block is taken or copied.

        ValueError if the child exists.
        """
        raise NotImplementedError("4.6/block_manager: write BlockManager.fork")

    def free(self, seq: int) -> None:
        """Forgets the sequence. Blocks that no other table holds become free."""
        raise NotImplementedError("4.6/block_manager: write BlockManager.free")

    def table(self, seq: int) -> list[int]:
        """The sequence's blocks in order, as a list of its own."""
        raise NotImplementedError("4.6/block_manager: write BlockManager.table")

    def length(self, seq: int) -> int:
        """How many tokens the sequence has slots for."""
        raise NotImplementedError("4.6/block_manager: write BlockManager.length")

    def slot(self, seq: int, position: int) -> int:
        """The physical slot of a token, block * block_size + offset. IndexError unless 0 <= position < length."""
        raise NotImplementedError("4.6/block_manager: write BlockManager.slot")

    def can_append(self, seq: int, tokens: int = 1) -> bool:
        """Whether append(seq, tokens) would succeed now. Changes nothing."""
        raise NotImplementedError("4.6/block_manager: write BlockManager.can_append")

    def truncate(self, seq: int, tokens: int) -> None:
        """Keeps the first `tokens` tokens (a speculation was rejected) and gives up the blocks that hold none of them.

        ValueError unless 0 <= tokens <= length. Truncated to 0, the sequence still exists.
        """
        raise NotImplementedError("4.6/block_manager: write BlockManager.truncate")

    @property
    def num_free(self) -> int:
        """How many blocks no table holds."""
        raise NotImplementedError("4.6/block_manager: write BlockManager.num_free")

    def stats(self) -> dict[str, int]:
        """How well the memory is used, as a dictionary of three numbers.

        "physical": blocks that at least one table holds. "logical": entries (blocks) of all tables, summed, so that a
        block counts once for each table that holds it; what it is above "physical" is what sharing saves. "wasted":
        slots of the physical blocks that hold no token of any sequence. (A shared last block may hold more tokens of
        one sequence than of another, which was truncated.)
        """
        raise NotImplementedError("4.6/block_manager: write BlockManager.stats")
