"""Lists of bytes, pairs as tuples, and heap entries of a class that compares the other way round."""

import heapq
import re
from itertools import pairwise


class Entry:
    def __init__(self, count, pair):
        self.count = count
        self.pair = pair

    def __lt__(self, other):
        if self.count != other.count:
            return self.count > other.count
        return self.pair > other.pair


def merge_word(word, a, b):
    out = []
    i = 0
    while i < len(word):
        if i + 1 < len(word) and word[i] == a and word[i + 1] == b:
            out.append(a + b)
            i += 2
        else:
            out.append(word[i])
            i += 1
    return out


def train_bpe(text, vocab_size, special_tokens, split):
    if len(set(special_tokens)) != len(special_tokens):
        raise ValueError("duplicate special token")
    for token in special_tokens:
        if not token:
            raise ValueError("empty special token")
    n_merges = vocab_size - 256 - len(special_tokens)
    if n_merges < 0:
        raise ValueError("vocab_size")

    if special_tokens:
        pattern = "|".join(re.escape(t) for t in sorted(special_tokens, key=lambda t: -len(t)))
        chunks = re.split(pattern, text)
    else:
        chunks = [text]
    freq = {}
    for chunk in chunks:
        if not chunk:
            continue
        for piece in split(chunk):
            freq[piece] = freq.get(piece, 0) + 1

    words = []
    counts = []
    for piece, count in freq.items():
        words.append([bytes([b]) for b in piece.encode("utf-8")])
        counts.append(count)

    pair_count = {}
    pair_words = {}
    for i, word in enumerate(words):
        for pair in pairwise(word):
            pair_count[pair] = pair_count.get(pair, 0) + counts[i]
            pair_words.setdefault(pair, set()).add(i)

    heap = [Entry(count, pair) for pair, count in pair_count.items()]
    heapq.heapify(heap)

    merges = []
    while len(merges) < n_merges and heap:
        entry = heapq.heappop(heap)
        pair = entry.pair
        if pair_count.get(pair, 0) != entry.count or entry.count <= 0:
            continue
        merges.append(pair)
        changed = set()
        for i in list(pair_words[pair]):
            word = words[i]
            for old in pairwise(word):
                pair_count[old] -= counts[i]
                pair_words[old].discard(i)
                changed.add(old)
            words[i] = word = merge_word(word, *pair)
            for new in pairwise(word):
                pair_count[new] = pair_count.get(new, 0) + counts[i]
                pair_words.setdefault(new, set()).add(i)
                changed.add(new)
        for p in changed:
            if pair_count[p] > 0:
                heapq.heappush(heap, Entry(pair_count[p], p))

    vocab = {i: bytes([i]) for i in range(256)}
    for a, b in merges:
        vocab[len(vocab)] = a + b
    for token in special_tokens:
        vocab[len(vocab)] = token.encode("utf-8")
    return vocab, merges
