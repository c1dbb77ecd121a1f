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
    ### BEGIN SOLUTION
    text = list(prompt)  # settled tokens; each cache holds a prefix of text (+ drafts, during a round)
    stop = len(text) + max_new
    accepted, drafted = [], []
    finished = max_new == 0
    while not finished:
        m = min(k, stop - len(text) - 1)
        drafts: list[int] = []
        q = []
        for _ in range(m):
            row = draft.forward((text + drafts)[draft.length :])[-1]
            q.append(_one_hot(row) if greedy else row)
            drafts.append(_sample(q[-1], rng))
        # The prompt is merged into the first round: of its rows only the last m + 1 are of interest.
        p = target.forward((text + drafts)[target.length :])[-(m + 1) :]
        if greedy:
            p = [_one_hot(row) for row in p]
        n, token = _verify(p, q, drafts, rng)
        accepted.append(n)
        drafted.append(m)
        new = [*drafts[:n], token]
        if eos_id is not None and eos_id in new:
            new = new[: new.index(eos_id) + 1]
            finished = True
        text += new
        finished = finished or len(text) == stop
        for model in (target, draft):
            model.truncate(min(model.length, len(text) - 1))
    return Generation(text[len(prompt) :], accepted, drafted)
    ### END SOLUTION


### BEGIN SOLUTION
def _one_hot(row: np.ndarray) -> np.ndarray:
    result = np.zeros(len(row))
    result[row.argmax()] = 1.0
    return result


def _sample(weights: np.ndarray, rng: np.random.Generator) -> int:
    c = weights.cumsum()
    return min(int(np.searchsorted(c, rng.random() * c[-1], side="right")), len(c) - 1)


def _verify(p, q, drafts: list[int], rng: np.random.Generator) -> tuple[int, int]:
    """The rule of 7.6/speculative_sampling: (number of accepted drafts, the token that follows them)."""
    for i, x in enumerate(drafts):
        if not rng.random() * q[i][x] < p[i][x]:
            return i, _sample(np.maximum(p[i] - q[i], 0.0), rng)
    return len(drafts), _sample(p[len(drafts)], rng)


### END SOLUTION
