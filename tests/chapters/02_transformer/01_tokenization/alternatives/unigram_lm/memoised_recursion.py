"""Viterbi as a memoised recursion with a raised recursion limit."""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from collections import Counter, defaultdict
from collections.abc import Iterator

LogProbs = dict[str, float]


def _matches(text: str, logp: LogProbs) -> Iterator[tuple[int, int, str, float]]:
    """(start, end, piece, logp) by increasing end."""
    m = max(map(len, logp), default=0)
    for end in range(1, len(text) + 1):
        for start in range(max(0, end - m), end):
            piece = text[start:end]
            lp = logp.get(piece)
            if lp is not None:
                yield start, end, piece, lp


def viterbi(text: str, logp: LogProbs, unk_logp: float | None = None) -> tuple[list[str], float]:
    m = max(max(map(len, logp), default=1), 1)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 4 * len(text) + 1000))

    @lru_cache(maxsize=None)
    def best(end):
        if end == 0:
            return 0.0, 0
        options = []
        for start in range(max(0, end - m), end):
            piece = text[start:end]
            lp = logp[piece] if piece in logp else unk_logp if end - start == 1 else None
            if lp is not None:
                options.append((best(start)[0] + lp, start))
        return max(options, default=(-math.inf, 0))

    if best(len(text))[0] == -math.inf:
        raise ValueError("the text has no segmentation")
    pieces = []
    end = len(text)
    while end > 0:
        pieces.insert(0, text[best(end)[1] : end])
        end = best(end)[1]
    return pieces, best(len(text))[0]


def _logsum(xs: list[float]) -> float:
    top = max(xs, default=-math.inf)
    if top == -math.inf:
        return top
    return top + math.log(math.fsum(math.exp(x - top) for x in xs))


def expected_counts(text: str, logp: LogProbs) -> tuple[dict[str, float], float]:
    n = len(text)
    ending = [[] for _ in range(n + 1)]
    starting = [[] for _ in range(n + 1)]
    edges = list(_matches(text, logp))
    for s, e, _, lp in edges:
        ending[e].append((s, lp))
        starting[s].append((e, lp))
    fwd = [0.0] * (n + 1)
    for e in range(1, n + 1):
        fwd[e] = _logsum([fwd[s] + lp for s, lp in ending[e]])
    bwd = [0.0] * (n + 1)
    for s in range(n - 1, -1, -1):
        bwd[s] = _logsum([bwd[e] + lp for e, lp in starting[s]])
    total = fwd[n]
    if total == -math.inf:
        raise ValueError("the text has no segmentation")
    counts = defaultdict(float)
    for s, e, piece, lp in edges:
        counts[piece] += math.exp(fwd[s] + lp + bwd[e] - total)
    return dict(counts), total


def em_step(words: dict[str, int], logp: LogProbs) -> tuple[LogProbs, float]:
    counts = defaultdict(float)
    likelihood = 0.0
    for word, c in words.items():
        expected, total = expected_counts(word, logp)
        likelihood += c * total
        for piece, x in expected.items():
            counts[piece] += c * x
    counts = {p: x for p, x in counts.items() if x >= 1e-12}
    norm = math.fsum(counts.values())
    return {p: math.log(x / norm) for p, x in counts.items()}, likelihood


def prune(words: dict[str, int], logp: LogProbs, keep: int) -> LogProbs:
    uses = Counter()
    for word, c in words.items():
        for piece in viterbi(word, logp)[0]:
            uses[piece] += c
    singles = [p for p in logp if len(p) == 1]
    losses = {}
    for piece in logp:
        if len(piece) == 1:
            continue
        rest = {p: lp for p, lp in logp.items() if p != piece}
        try:
            losses[piece] = uses[piece] * (logp[piece] - viterbi(piece, rest)[1])
        except ValueError:
            losses[piece] = math.inf
    ranked = sorted(losses, key=lambda p: (-losses[p], p))
    kept = singles + ranked[: max(keep - len(singles), 0)]
    norm = math.log(math.fsum(math.exp(logp[p]) for p in kept))
    return {p: logp[p] - norm for p in kept}
