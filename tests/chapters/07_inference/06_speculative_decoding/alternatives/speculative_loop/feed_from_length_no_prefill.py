"""No prefill: each model is fed text[model.length:], so the prompt goes with the first round; cumsum sampling."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy as np


class CachedModel:
    """Given: a language model with a cache, as a toy to try your program on. The grader uses models of its own, with
    exactly these two attributes (read them, never set them) and two methods; use nothing else.

    Its next-token distribution is a random function of *all* tokens in its cache: one wrong token in there, and every
    later distribution is another one. Models of the same vocab_size and seed are equal.
    """

    def __init__(self, vocab_size: int, seed: int) -> None:
        self.vocab_size = vocab_size
        self._seed = seed
        self._cache: list[int] = []

    @property
    def length(self) -> int:
        """Number of cached tokens; 0 at the start."""
        return len(self._cache)

    def forward(self, tokens: list[int]) -> np.ndarray:
        """Adds the tokens (at least one) to the cache. Returns float64 (len(tokens), vocab_size): row i is the
        distribution of the next token after everything cached before the call and tokens[: i + 1]."""
        if len(tokens) == 0:
            raise ValueError("forward needs at least one token")
        rows = []
        for token in tokens:
            self._cache.append(int(token))
            seed = crc32(repr((self._seed, self._cache)).encode())
            rows.append(np.random.default_rng(seed).dirichlet(np.ones(self.vocab_size)))
        return np.stack(rows)

    def truncate(self, n: int) -> None:
        """Forgets all but the first n cached tokens, 0 <= n <= length."""
        if not 0 <= n <= len(self._cache):
            raise ValueError(f"{len(self._cache)} tokens are cached: cannot keep {n}")
        del self._cache[n:]


@dataclass(frozen=True)
class Generation:
    """What `generate` returns."""

    tokens: list[int]  # new tokens, EOS included if it was reached
    accepted: list[int]  # accepted draft tokens of each round, before anything is cut at EOS
    drafted: list[int]  # drafted tokens of each round


def _sample(weights, rng):
    c = np.cumsum(weights)
    return min(int(np.searchsorted(c, rng.random() * c[-1], side="right")), len(c) - 1)


def _one_hot(rows):
    out = np.zeros_like(rows)
    out[np.arange(len(rows)), rows.argmax(axis=1)] = 1.0
    return out


def generate(
    target: CachedModel,
    draft: CachedModel,
    prompt: list[int],
    max_new: int,
    k: int,
    rng: np.random.Generator,
    eos_id: int | None = None,
    greedy: bool = False,
) -> Generation:
    text = list(prompt)
    end = len(prompt) + max_new
    accepted, drafted = [], []
    done = False
    while len(text) < end and not done:
        n = len(text)
        guesses, qs = [], []
        for _ in range(min(k, end - n - 1)):
            row = draft.forward((text + guesses)[draft.length :])[-1:]
            q = (_one_hot(row) if greedy else row)[0]
            qs.append(q)
            guesses.append(_sample(q, rng))
        ps = target.forward((text + guesses)[target.length :])[-len(guesses) - 1 :]
        if greedy:
            ps = _one_hot(ps)
        a = 0
        while a < len(guesses) and rng.random() * qs[a][guesses[a]] < ps[a][guesses[a]]:
            a += 1
        weights = ps[a]
        if a < len(guesses):
            extra = np.maximum(ps[a] - qs[a], 0.0)
            if extra.sum() > 0:
                weights = extra
        text += guesses[:a] + [_sample(weights, rng)]
        accepted.append(a)
        drafted.append(len(guesses))
        if eos_id is not None and eos_id in text[n:]:
            del text[text.index(eos_id, n) + 1 :]
            done = True
        target.truncate(min(target.length, n + a, len(text) - 1))
        draft.truncate(min(draft.length, n + a, len(text)))
    return Generation(text[len(prompt) :], accepted, drafted)
