"""Any entry may begin a word, "##a" too. Slices tried by a generator expression, words joined at the end; training keeps counts up to date word by word and compares scores by cross-multiplied integers."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from functools import cmp_to_key


def wordpiece_encode(word, vocab, unk="[UNK]", max_chars=100, max_piece=None):
    if len(word) > max_chars:
        return [unk]
    limit = max_piece or len(word)
    out, rest = [], word
    while rest:
        mark = "##" if out else ""
        cut = next(
            (n for n in range(min(limit, len(rest)), 0, -1) if mark + rest[:n] in vocab),
            0,
        )
        if not cut:
            return [unk]
        out.append(mark + rest[:cut])
        rest = rest[cut:]
    return out


def wordpiece_decode(pieces):
    words = []
    for p in pieces:
        if p[:2] == "##":
            if words:
                words[-1] += p[2:]
            else:
                words.append(p[2:])
        else:
            words.append(p)
    return " ".join(words)


def pair_scores(words):
    one, two = defaultdict(int), defaultdict(int)
    for w, c in words.items():
        for x in w:
            one[x] += c
        for x in zip(w, w[1:]):
            two[x] += c
    return {p: Fraction(c, one[p[0]]) / one[p[1]] for p, c in two.items()}


def train_wordpiece(word_counts, vocab_size):
    words = [[c if i == 0 else "##" + c for i, c in enumerate(w)] for w in word_counts]
    freq = list(word_counts.values())
    one, two, where = Counter(), Counter(), defaultdict(set)

    def count(i, sign):
        w = words[i]
        for x in w:
            one[x] += sign * freq[i]
        for p in zip(w, w[1:]):
            two[p] += sign * freq[i]
            where[p].add(i)

    for i in range(len(words)):
        count(i, 1)
    vocab = sorted(one)

    def compare(p, q):
        lhs = two[p] * one[q[0]] * one[q[1]]
        rhs = two[q] * one[p[0]] * one[p[1]]
        if lhs != rhs:
            return 1 if lhs > rhs else -1
        if two[p] != two[q]:
            return 1 if two[p] > two[q] else -1
        return 1 if p < q else -1

    while len(vocab) < vocab_size:
        live = [p for p, c in two.items() if c > 0]
        if not live:
            break
        a, b = best = max(live, key=cmp_to_key(compare))
        new = a + b.removeprefix("##")
        vocab.append(new)
        for i in where.pop(best):
            count(i, -1)
            w = words[i]
            j = 0
            while j < len(w) - 1:
                if w[j] == a and w[j + 1] == b:
                    w[j : j + 2] = [new]
                j += 1
            count(i, 1)
    return vocab
