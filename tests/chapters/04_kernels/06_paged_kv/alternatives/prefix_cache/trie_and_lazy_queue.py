"""Identities are the nodes of a trie that never forgets; blocks leave the queue lazily, by a ticket that expired."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence


class OutOfBlocks(Exception):
    pass


class Node:
    def __init__(self):
        self.children = {}
        self.block = None


class Block:
    def __init__(self, number):
        self.number = number
        self.users = 0
        self.ticket = 0
        self.node = None


class Request:
    def __init__(self, tokens, blocks, path):
        self.tokens = tokens
        self.blocks = blocks
        self.path = path


class PrefixCache:
    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.size = block_size
        self.roots = {}
        self.requests = {}
        self.waiting = deque()
        self.tickets = 0
        self.free = 0
        self.counters = dict(hits=0, queries=0, evictions=0)
        for number in reversed(range(num_blocks)):
            self._release(Block(number))

    def _release(self, block):
        self.tickets += 1
        self.free += 1
        block.ticket = self.tickets
        self.waiting.append((self.tickets, block))

    def _claim(self, block):
        if block.users == 0:
            self.free -= 1
            block.ticket = 0
        block.users += 1
        return block

    def _fresh(self):
        while True:
            ticket, block = self.waiting.popleft()
            if block.ticket == ticket:
                break
        if block.node is not None:
            block.node.block = None
            block.node = None
            self.counters["evictions"] += 1
        return self._claim(block)

    def _path(self, tokens, salt):
        node = self.roots.setdefault(salt, Node())
        path = [node]
        position = 0
        while position + self.size < len(tokens):
            node = node.children.get(tuple(tokens[position : position + self.size]))
            if node is None or node.block is None:
                break
            path.append(node)
            position += self.size
        return path

    def match(self, tokens: Sequence[int], salt: Hashable = None) -> int:
        return (len(self._path(tokens, salt)) - 1) * self.size

    def start(self, seq: int, tokens: Sequence[int], salt: Hashable = None) -> int:
        if seq in self.requests or len(tokens) == 0:
            raise ValueError(seq)
        path = self._path(tokens, salt)
        hits = [node.block for node in path[1:]]
        blocks_in_all = (len(tokens) + self.size - 1) // self.size
        idle = len([block for block in hits if not block.users])
        if self.free - idle < blocks_in_all - len(hits):
            raise OutOfBlocks
        blocks = [self._claim(block) for block in hits]
        while len(blocks) < blocks_in_all:
            blocks.append(self._fresh())
        self.requests[seq] = Request(list(tokens), blocks, path)
        self.counters["hits"] += len(hits) * self.size
        self.counters["queries"] += len(tokens)
        return len(hits) * self.size

    def append(self, seq: int, token: int) -> None:
        request = self.requests[seq]
        if len(request.tokens) == len(request.blocks) * self.size:
            if self.free == 0:
                raise OutOfBlocks
            request.blocks.append(self._fresh())
        request.tokens.append(token)

    def commit(self, seq: int, computed: int) -> None:
        request = self.requests[seq]
        while len(request.path) * self.size <= computed:
            at = len(request.path) - 1
            tokens = tuple(request.tokens[at * self.size : at * self.size + self.size])
            node = request.path[-1].children.setdefault(tokens, Node())
            if node.block is None:
                node.block = request.blocks[at]
                node.block.node = node
            request.path.append(node)

    def finish(self, seq: int) -> None:
        blocks = self.requests.pop(seq).blocks
        while blocks:
            block = blocks.pop()
            block.users -= 1
            if block.users == 0:
                self._release(block)

    def table(self, seq: int) -> list[int]:
        return [block.number for block in self.requests[seq].blocks]

    @property
    def num_free(self) -> int:
        return self.free

    def stats(self) -> dict[str, int]:
        return dict(self.counters)
