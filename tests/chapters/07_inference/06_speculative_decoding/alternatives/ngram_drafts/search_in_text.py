"""Tokens as characters of a str: its find is linear, and if an n-gram occurs earlier, so does each shorter one."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence


def prompt_lookup(tokens: Sequence[int], max_ngram: int, min_ngram: int, k: int) -> list[int]:
    if not (1 <= min_ngram <= max_ngram and k >= 0):
        raise ValueError("1 <= min_ngram <= max_ngram, k >= 0")
    letters: dict[int, str] = {}
    text = "".join(letters.setdefault(token, chr(0x100 + len(letters))) for token in tokens)

    def occurs(n):
        return text.find(text[len(text) - n :], 0, len(text) - 1)

    good, bad = 0, min(max_ngram, len(text) - 1) + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if occurs(middle) >= 0:
            good = middle
        else:
            bad = middle
    if good < min_ngram:
        return []
    start = occurs(good) + good
    return [int(token) for token in tokens[start : start + k]]


class NgramPool:
    def __init__(self, n: int, per_key: int) -> None:
        self.n = n
        self.recent = defaultdict(lambda: deque(maxlen=per_key))

    def add(self, tokens: Sequence[int]) -> None:
        for end in range(self.n, len(tokens) + 1):
            gram = list(tokens[end - self.n : end])
            kept = self.recent[gram[0]]
            if gram[1:] in kept:
                kept.remove(gram[1:])
            kept.appendleft(gram[1:])

    def propose(self, token: int) -> list[list[int]]:
        return [*self.recent[token]]


def lookahead_decode(
    model: Callable[[list[int], list[list[int]]], list[list[int]]],
    prompt: Sequence[int],
    n_new: int,
    window: int,
    pool: NgramPool | None = None,
    pad: int = 0,
) -> tuple[list[int], int]:
    old, text, ahead, calls = 0, list(prompt), [], 0
    while len(text) - len(prompt) < n_new:
        if pool is not None:
            pool.add(text[max(0, old - pool.n + 1) :])
        guess = (ahead + [pad] * window)[:window]
        branches = [guess]
        if pool is not None:
            branches.extend(pool.propose(text[-1]))
        answers = model(text[:], branches)
        calls += 1
        scores = []
        for branch, answer in zip(branches, answers, strict=True):
            scores.append(
                next((i for i, (g, y) in enumerate(zip(branch, answer, strict=False)) if g != y), len(branch))
            )
        winner = max(range(len(scores)), key=scores.__getitem__)
        old = len(text)
        text.extend(answers[winner][: scores[winner] + 1])
        ahead = answers[0][scores[winner] + 1 :]
    return text[len(prompt) :][:n_new], calls
