"""The unigram language model over pieces: best segmentation, all segmentations, EM and pruning."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator

LogProbs = dict[str, float]
"""piece -> natural logarithm of its probability. Pieces are not empty, probabilities are above 0."""

### BEGIN SOLUTION


def _longest(logp: LogProbs) -> int:
    """Characters of the longest piece: nothing longer needs to be looked up."""
    return max(map(len, logp), default=1)


def _edges(
    text: str, logp: LogProbs, longest: int, unk_logp: float | None = None
) -> Iterator[tuple[int, int, str, float]]:
    """Positions between characters are nodes, pieces are edges: all (start, end, piece, score), in order of `end`."""
    for end in range(1, len(text) + 1):
        for start in range(max(0, end - longest), end):
            piece = text[start:end]
            score = logp.get(piece)
            if score is None and len(piece) == 1:
                score = unk_logp
            if score is not None:
                yield start, end, piece, score


def _best_path(text: str, edges: Iterator[tuple[int, int, str, float]]) -> tuple[list[str], float]:
    """The path of highest score from the beginning to the end of the text."""
    best = [0.0] + [-math.inf] * len(text)
    last = [""] * len(best)
    for start, end, piece, score in edges:
        if best[start] + score > best[end]:
            best[end], last[end] = best[start] + score, piece
    if best[-1] == -math.inf:
        raise ValueError(f"{text!r} has no segmentation")
    pieces = []
    end = len(text)
    while end > 0:
        pieces.append(last[end])
        end -= len(last[end])
    return pieces[::-1], best[-1]


def _logaddexp(a: float, b: float) -> float:
    """log(exp(a) + exp(b))."""
    low, high = min(a, b), max(a, b)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def _expected_counts(text: str, logp: LogProbs, longest: int) -> tuple[dict[str, float], float]:
    edges = list(_edges(text, logp, longest))
    forward = [0.0] + [-math.inf] * len(text)  # of all ways to segment text[:i]
    for start, end, _, score in edges:
        forward[end] = _logaddexp(forward[end], forward[start] + score)
    total = forward[-1]
    if total == -math.inf:
        raise ValueError(f"{text!r} has no segmentation")
    backward = [-math.inf] * len(text) + [0.0]  # of all ways to segment text[i:]
    for start, end, _, score in reversed(edges):
        backward[start] = _logaddexp(backward[start], score + backward[end])
    counts: dict[str, float] = defaultdict(float)
    for start, end, piece, score in edges:
        counts[piece] += math.exp(forward[start] + score + backward[end] - total)
    return dict(counts), total


### END SOLUTION


def viterbi(text: str, logp: LogProbs, unk_logp: float | None = None) -> tuple[list[str], float]:
    """The most probable segmentation of a text into pieces (arXiv:1804.10959).

    A segmentation's probability is the product of its pieces' probabilities, so its score is the sum of their logp. The
    best one follows from the best ones of all prefixes; taking the longest or the most probable piece each time does
    not find it.

    With unk_logp, a single character that is not in logp may be used as a piece at that score; with None it may not.

    Returns (pieces, score). "" gives ([], 0.0). Where several are equally good any of them will do. ValueError if there
    is no segmentation.

    Cost: with pieces of at most m characters, a text of n characters takes at most 6 n m look-ups in logp (`in`, [] and
    get; going through it once to find m is free), and the executed lines grow at most 2.6 times when n doubles.
    """
    ### BEGIN SOLUTION
    return _best_path(text, _edges(text, logp, _longest(logp), unk_logp))
    ### END SOLUTION


def expected_counts(text: str, logp: LogProbs) -> tuple[dict[str, float], float]:
    """How often each piece is used, on average over all segmentations, and the probability of the text.

    All segmentations count, each in proportion to its probability. The text's probability is the sum over all of them;
    it comes as a natural logarithm, and everything is added up in logarithms, since 2,500 characters have a probability
    far below the smallest float. Each character lies in exactly one piece, so the sum over pieces of expected count
    times length is the text's length.

    Returns ({piece: expected count}, log of the total probability). A piece that no segmentation uses is missing or 0.
    "" has one segmentation, without pieces: its log is 0.0. ValueError if the text has no segmentation.

    Cost: as for `viterbi`.
    """
    ### BEGIN SOLUTION
    return _expected_counts(text, logp, _longest(logp))
    ### END SOLUTION


def em_step(words: dict[str, int], logp: LogProbs) -> tuple[LogProbs, float]:
    """One step of expectation maximisation on words with counts, each word a text by itself.

    E: a piece's expected count over the corpus is the sum over words of the word's count times the expected count in
    it. M: its new probability is its expected count / the sum of all expected counts. Pieces with an expected count
    below 1e-12 are dropped.

    Returns (new log probabilities, log-likelihood): the latter is the sum over words of count * log probability BEFORE
    the step, with `logp`. It never falls from one step to the next. The new probabilities sum to 1. ValueError if a
    word has no segmentation.
    """
    ### BEGIN SOLUTION
    longest = _longest(logp)
    expected: dict[str, float] = defaultdict(float)
    log_likelihood = 0.0
    for word, count in words.items():
        in_word, log_total = _expected_counts(word, logp, longest)
        log_likelihood += count * log_total
        for piece, uses in in_word.items():
            expected[piece] += count * uses
    kept = {piece: uses for piece, uses in expected.items() if uses >= 1e-12}
    log_sum = math.log(sum(kept.values()))
    return {piece: math.log(uses) - log_sum for piece, uses in kept.items()}, log_likelihood
    ### END SOLUTION


def prune(words: dict[str, int], logp: LogProbs, keep: int) -> LogProbs:
    """Shrink the vocabulary to `keep` pieces, dropping those that hurt least.

    Single characters always stay. Every other piece has a loss:

        loss = uses * (logp[piece] - score of the best segmentation of the piece without itself)

    where uses is how often the piece stands in the words' best segmentations, each word as often as its count says. A
    piece that cannot be segmented without itself has an infinite loss, whatever its uses. Those with the largest losses
    are kept, of equal losses the lexicographically smaller piece first, so that `keep` pieces remain in all; fewer only
    if there are no more, and never fewer than the single characters.

    Returns the remaining pieces, their probabilities divided by the sum of them. ValueError if a word has no
    segmentation.
    """
    ### BEGIN SOLUTION
    longest = _longest(logp)
    uses: Counter[str] = Counter()
    for word, count in words.items():
        for piece in _best_path(word, _edges(word, logp, longest))[0]:
            uses[piece] += count

    def loss(piece: str) -> float:
        try:
            _, alternative = _best_path(piece, _edges(piece, logp, len(piece) - 1))
        except ValueError:
            return math.inf
        return uses[piece] * (logp[piece] - alternative)

    single = [piece for piece in logp if len(piece) == 1]
    losses = {piece: loss(piece) for piece in logp if len(piece) > 1}
    ranked = sorted(losses, key=lambda piece: (-losses[piece], piece))
    kept = single + ranked[: max(0, keep - len(single))]
    log_sum = math.log(sum(math.exp(logp[piece]) for piece in kept))
    return {piece: logp[piece] - log_sum for piece in kept}
    ### END SOLUTION
