"""The whole loop of speculative decoding: two models, two caches, rollback, end of text."""

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
    """Speculative decoding: up to max_new tokens after the prompt, distributed exactly as the target's own samples.

    Both caches are empty at the start; the prompt has at least one token; max_new, k >= 0. Rounds follow each other
    until max_new tokens were produced or EOS was:

    1. The draft model proposes exactly min(k, max_new - produced - 1) tokens, one after another, each sampled from its
       distribution q after text and drafts so far. (An EOS among them does not stop the drafting. With k = 0
       the draft model is never called.)
    2. The target scores the pending token (the last settled one, which is not in its cache yet) and all drafts in one
       forward call: one row p at each draft's place, and one after the last.
    3. Draft token x is accepted with probability min(1, p[x] / q[x]): iff u * q[x] < p[x], u uniform in [0, 1). At the
       first rejection a token is drawn from max(p - q, 0), normalised, and the rest of the draft is dropped; if all
       are accepted, a token is drawn from the target's last row. So each round settles accepted + 1 tokens.
    4. If one of them is eos_id, the output ends with the first of these.

    greedy: both models' rows are replaced by one-hot rows at their argmax (the lowest id on ties).
    All randomness comes from rng; how you consume it is up to you. max_new = 0 returns three empty lists, no call made.

    At the end both caches hold a prefix of prompt + tokens, and the target's lacks exactly the last token (if at
    least one was produced).

    Cost: target.forward is called at most rounds + 1 times, with at most len(prompt) + sum(drafted) + rounds tokens in
    all. The draft is called at most sum(drafted) + 1 times: a drafted token that is accepted stays in its cache, and
    it is not fed that token again. Source: arXiv:2211.17192, arXiv:2302.01318.
    """
    raise NotImplementedError("7.6/speculative_loop: write generate")
