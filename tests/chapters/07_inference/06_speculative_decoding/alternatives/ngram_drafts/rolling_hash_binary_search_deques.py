"""Prompt lookup by rolling hashes of token numbers and a binary search over n (an n-gram's suffix occurs wherever it does); pool of deques; lookahead with a closure."""

from __future__ import annotations

from collections import defaultdict, deque

M, BASE = (1 << 61) - 1, 1_000_003


def prompt_lookup(tokens, max_ngram, min_ngram, k):
    if not (1 <= min_ngram <= max_ngram) or k < 0:
        raise ValueError("arguments")
    number = {}
    ids = [number.setdefault(t, len(number)) + 1 for t in tokens]
    n = len(ids)
    prefix = [0]
    for t in ids:
        prefix.append((prefix[-1] * BASE + t) % M)

    def first(size):
        """Where the last `size` tokens start for the first time; None if only at the end."""
        power = pow(BASE, size, M)
        goal = (prefix[n] - prefix[n - size] * power) % M
        for i in range(n - size):
            if (prefix[i + size] - prefix[i] * power) % M == goal:
                return i
        return None

    lo, hi = min_ngram - 1, min(max_ngram, n - 1)
    place = None
    while lo < hi:
        mid = (lo + hi + 1) // 2
        at = first(mid)
        if at is None:
            hi = mid - 1
        else:
            lo, place = mid, at
    if place is None:
        return []
    return [tokens[i] for i in range(place + lo, min(place + lo + k, n))]


class NgramPool:
    def __init__(self, n, per_key):
        self.n = n
        self.pool = defaultdict(lambda: deque(maxlen=per_key))

    def __len__(self):
        return sum(map(len, self.pool.values()))

    def add(self, tokens):
        tokens = tuple(tokens)
        for end in range(self.n, len(tokens) + 1):
            gram = tokens[end - self.n : end]
            d = self.pool[gram[0]]
            if gram[1:] in d:
                d.remove(gram[1:])
            d.append(gram[1:])

    def propose(self, token):
        return [list(g) for g in reversed(self.pool[token])] if token in self.pool else []


def lookahead_decode(model, prompt, n_new, window, pool=None, pad=0):
    text = list(prompt)
    if n_new == 0:
        return [], 0
    if pool is not None:
        pool.add(text)
    guess = [pad] * window
    for calls in range(1, n_new + 1):
        branches = [guess] + ([] if pool is None else pool.propose(text[-1]))
        best = []
        ys = model(text[:], branches)
        for g, y in zip(branches, ys):
            true = [y[0]]
            for guessed, real, nxt in zip(g, y, y[1:]):
                if guessed != real:
                    break
                true.append(nxt)
            if len(true) > len(best):
                best = true
        before = text[max(0, len(text) - (pool.n - 1)) :] if pool is not None else []
        if pool is not None:
            pool.add(before + best)
        text.extend(best)
        guess = ys[0][len(best) :]
        guess = guess + [pad] * (window - len(guess))
        if len(text) - len(prompt) >= n_new:
            break
    return text[len(prompt) : len(prompt) + n_new], calls
