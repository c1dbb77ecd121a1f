"""Blocks are objects that know who holds them; blocks never used come from a counter, returned ones from a set."""

from __future__ import annotations

import math
from itertools import chain


class OutOfBlocks(Exception):
    pass


class Block:
    def __init__(self, number):
        self.number = number
        self.holders = set()


class Sequence:
    def __init__(self):
        self.blocks = []
        self.tokens = 0


class BlockManager:
    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.total = num_blocks
        self.size = block_size
        self.fresh = 0
        self.returned = set()
        self.sequences = {}

    @property
    def num_free(self) -> int:
        return self.total - self.fresh + len(self.returned)

    def _new_block(self, seq):
        if self.returned:
            block = self.returned.pop()
        else:
            block = Block(self.fresh)
            self.fresh += 1
        block.holders.add(seq)
        return block

    def _drop(self, block, seq):
        block.holders.remove(seq)
        if not block.holders:
            self.returned.add(block)

    def _find(self, seq):
        if seq not in self.sequences:
            raise KeyError(seq)
        return self.sequences[seq]

    def create(self, seq: int, tokens: int) -> list[int]:
        if seq in self.sequences:
            raise ValueError(f"{seq} is already there")
        if math.ceil(tokens / self.size) > self.num_free:
            raise OutOfBlocks
        self.sequences[seq] = Sequence()
        if tokens:
            self.append(seq, tokens)
        return self.table(seq)

    def _missing(self, sequence, tokens):
        room = len(sequence.blocks) * self.size - sequence.tokens
        more = max(0, math.ceil((tokens - room) / self.size))
        must_copy = room > 0 and len(sequence.blocks[-1].holders) >= 2
        return must_copy, more

    def append(self, seq: int, tokens: int = 1) -> list[tuple[int, int]]:
        sequence = self._find(seq)
        if not self.can_append(seq, tokens):
            raise OutOfBlocks
        must_copy, more = self._missing(sequence, tokens)
        orders = []
        if must_copy:
            old = sequence.blocks.pop()
            new = self._new_block(seq)
            sequence.blocks.append(new)
            self._drop(old, seq)
            orders = [(old.number, new.number)]
        while more:
            sequence.blocks.append(self._new_block(seq))
            more -= 1
        sequence.tokens += tokens
        return orders

    def can_append(self, seq: int, tokens: int = 1) -> bool:
        must_copy, more = self._missing(self._find(seq), tokens)
        return must_copy + more <= self.num_free

    def fork(self, parent: int, child: int) -> None:
        old = self._find(parent)
        if child in self.sequences:
            raise ValueError(f"{child} is already there")
        new = self.sequences[child] = Sequence()
        new.tokens = old.tokens
        for block in old.blocks:
            block.holders.add(child)
            new.blocks.append(block)

    def free(self, seq: int) -> None:
        self.truncate(seq, 0)
        del self.sequences[seq]

    def table(self, seq: int) -> list[int]:
        return [block.number for block in self._find(seq).blocks]

    def length(self, seq: int) -> int:
        return self._find(seq).tokens

    def slot(self, seq: int, position: int) -> int:
        sequence = self._find(seq)
        if position not in range(sequence.tokens):
            raise IndexError(position)
        return sequence.blocks[position // self.size].number * self.size + position % self.size

    def truncate(self, seq: int, tokens: int) -> None:
        sequence = self._find(seq)
        if tokens < 0 or tokens > sequence.tokens:
            raise ValueError(tokens)
        while (len(sequence.blocks) - 1) * self.size >= tokens and sequence.blocks:
            self._drop(sequence.blocks.pop(), seq)
        sequence.tokens = tokens

    def stats(self) -> dict[str, int]:
        everything = list(chain.from_iterable(s.blocks for s in self.sequences.values()))
        used = set()
        for sequence in self.sequences.values():
            for position in range(sequence.tokens):
                used.add((sequence.blocks[position // self.size], position % self.size))
        physical = len(set(everything))
        return {"physical": physical, "logical": len(everything), "wasted": physical * self.size - len(used)}
