"""Both models prefilled without the last prompt token; Gumbel-max sampling; all uniforms of a round drawn at once; greedy handled by comparing argmaxes without randomness."""

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


def _gumbel(w, rng):
    with np.errstate(divide="ignore"):
        return int(np.argmax(np.log(w) + rng.gumbel(size=len(w))))


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
    produced, accepted, drafted = [], [], []
    if max_new == 0:
        return Generation(produced, accepted, drafted)
    pick = (lambda row: int(np.argmax(row))) if greedy else (lambda row: _gumbel(row, rng))
    prompt = list(prompt)
    body, last = prompt[:-1], prompt[-1]
    if body:
        target.forward(body)
        if k > 0 and max_new > 1:
            draft.forward(body)
    lag = []  # settled tokens the draft has not seen, apart from `last`
    while True:
        settled = len(prompt) + len(produced)
        m = min(k, max_new - len(produced) - 1)
        guess, q = [], []
        feed = lag + [last]
        for _ in range(m):
            q.append(draft.forward(feed)[-1])
            guess.append(pick(q[-1]))
            feed = guess[-1:]
        p = target.forward([last, *guess])
        if greedy:
            best = p.argmax(axis=1)
            agree = np.array(guess, dtype=int) == best[:m]
            a = m if agree.all() else int(np.argmin(agree))
            new = int(best[a])
        else:
            u = rng.random(m)
            a = 0
            while a < m and u[a] * q[a][guess[a]] < p[a, guess[a]]:
                a += 1
            if a < m:
                rest = np.clip(p[a] - q[a], 0, None)
                new = pick(rest / rest.sum())
            else:
                new = pick(p[m])
        run = guess[:a] + [new]
        accepted.append(a)
        drafted.append(m)
        hit = run.index(eos_id) if eos_id is not None and eos_id in run else None
        if hit is not None:
            run = run[: hit + 1]
        produced += run
        keep = settled + len(run) - 1
        target.truncate(keep)
        if m:
            lag = run[-2:-1] if a == m else []
        if draft.length > keep:
            draft.truncate(keep)
        if hit is not None or len(produced) == max_new:
            return Generation(produced, accepted, drafted)
        last = new
