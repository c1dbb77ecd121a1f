"""Words as lists of bytes objects, pair -> set of word numbers, whole affected words recounted, lazy heap with a reversed-order wrapper."""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise


class _Desc:
    """Orders pairs from the greatest to the smallest."""

    __slots__ = ("pair",)

    def __init__(self, pair):
        self.pair = pair

    def __lt__(self, other):
        return other.pair < self.pair


def _chunks(text: str, special_tokens: list[str]) -> list[str]:
    if not special_tokens:
        return [text]
    alternatives = sorted(special_tokens, key=len, reverse=True)
    return re.split("|".join(map(re.escape, alternatives)), text)


def train_bpe(
    text: str, vocab_size: int, special_tokens: list[str], split: Callable[[str], list[str]]
) -> tuple[dict[int, bytes], list[tuple[bytes, bytes]]]:
    if "" in special_tokens or len(set(special_tokens)) < len(special_tokens):
        raise ValueError("special tokens must be distinct and not empty")
    n_merges = vocab_size - 256 - len(special_tokens)
    if n_merges < 0:
        raise ValueError("vocab_size is too small")

    pieces: Counter[str] = Counter()
    for chunk in _chunks(text, special_tokens):
        pieces.update(split(chunk))
    words = [[bytes([b]) for b in piece.encode("utf-8")] for piece in pieces]
    freqs = list(pieces.values())

    counts: Counter = Counter()
    where = defaultdict(set)
    for i, word in enumerate(words):
        for pair in pairwise(word):
            counts[pair] += freqs[i]
            where[pair].add(i)
    heap = [(-n, _Desc(pair)) for pair, n in counts.items()]
    heapq.heapify(heap)

    vocab = {i: bytes([i]) for i in range(256)}
    merges: list[tuple[bytes, bytes]] = []
    while len(merges) < n_merges and heap:
        n, entry = heapq.heappop(heap)
        best = entry.pair
        if counts[best] != -n:
            continue
        new = best[0] + best[1]
        changed = set()
        for i in where.pop(best):
            word, f = words[i], freqs[i]
            for pair in pairwise(word):
                counts[pair] -= f
                where[pair].discard(i)
                changed.add(pair)
            merged = []
            j = 0
            while j < len(word):
                if word[j] == best[0] and j + 1 < len(word) and word[j + 1] == best[1]:
                    merged.append(new)
                    j += 2
                else:
                    merged.append(word[j])
                    j += 1
            words[i] = merged
            for pair in pairwise(merged):
                counts[pair] += f
                where[pair].add(i)
                changed.add(pair)
        for pair in changed:
            if counts[pair] > 0:
                heapq.heappush(heap, (-counts[pair], _Desc(pair)))
            else:
                del counts[pair]
        vocab[256 + len(merges)] = new
        merges.append(best)
    for token in special_tokens:
        vocab[len(vocab)] = token.encode("utf-8")
    return vocab, merges
