"""Prompt lookup with the Z function instead of KMP; a pool of ordered dicts; branches judged with takewhile."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import takewhile


def prompt_lookup(tokens: Sequence[int], max_ngram: int, min_ngram: int, k: int) -> list[int]:
    if min_ngram < 1 or max_ngram < min_ngram or k < 0:
        raise ValueError("bad arguments")
    back = list(reversed(tokens))
    n = len(back)
    # z[i]: how many tokens from i on agree with those from 0 on.
    z = [0] * n
    left = right = 0
    for i in range(1, n):
        length = min(right - i, z[i - left]) if i < right else 0
        while i + length < n and back[length] == back[i + length]:
            length += 1
        z[i] = length
        if i + length > right:
            left, right = i, i + length
    capped = [min(length, max_ngram) for length in z]
    best = max(capped, default=0)
    if best < min_ngram:
        return []
    start = max(i for i in range(n) if capped[i] == best)
    after = n - start
    return [tokens[i] for i in range(after, min(after + k, n))]


class NgramPool:
    def __init__(self, n: int, per_key: int) -> None:
        self.size, self.keep = n, per_key
        self.table: dict[int, OrderedDict] = {}

    def add(self, tokens: Sequence[int]) -> None:
        grams = zip(*(tokens[i:] for i in range(self.size)), strict=False)
        for gram in grams:
            seen = self.table.setdefault(gram[0], OrderedDict())
            seen[gram[1:]] = None
            seen.move_to_end(gram[1:])
            while len(seen) > self.keep:
                seen.popitem(last=False)

    def propose(self, token: int) -> list[list[int]]:
        return [list(gram) for gram in reversed(self.table.get(token, {}))]


def lookahead_decode(
    model: Callable[[list[int], list[list[int]]], list[list[int]]],
    prompt: Sequence[int],
    n_new: int,
    window: int,
    pool: NgramPool | None = None,
    pad: int = 0,
) -> tuple[list[int], int]:
    produced: list[int] = []
    calls = 0
    guess = window * [pad]
    if pool:
        pool.add(prompt)
    while len(produced) < n_new:
        text = [*prompt, *produced]
        branches = [guess] + (pool.propose(text[-1]) if pool else [])
        replies = model(text, branches)
        calls += 1
        best, new = -1, []
        for branch, reply in zip(branches, replies, strict=True):
            a = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(branch, reply, strict=False))))
            if a > best:
                best, new = a, reply[: a + 1]
        guess = (replies[0][best + 1 :] + window * [pad])[:window]
        if pool:
            pool.add(text[max(0, len(text) - pool.size + 1) :] + new)
        produced += new
    return produced[:n_new], calls
