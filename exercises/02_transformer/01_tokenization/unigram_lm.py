"""The unigram language model over pieces: best segmentation, all segmentations, EM and pruning."""

# Not allowed here, in any form: sentencepiece, tokenizers, transformers.

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator

LogProbs = dict[str, float]
"""piece -> natural logarithm of its probability. Pieces are not empty, probabilities are above 0."""


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
    raise NotImplementedError("2.1/unigram_lm: write viterbi")


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
    raise NotImplementedError("2.1/unigram_lm: write expected_counts")


def em_step(words: dict[str, int], logp: LogProbs) -> tuple[LogProbs, float]:
    """One step of expectation maximisation on words with counts, each word a text by itself.

    E: a piece's expected count over the corpus is the sum over words of the word's count times the expected count in
    it. M: its new probability is its expected count / the sum of all expected counts. Pieces with an expected count
    below 1e-12 are dropped.

    Returns (new log probabilities, log-likelihood): the latter is the sum over words of count * log probability BEFORE
    the step, with `logp`. It never falls from one step to the next. The new probabilities sum to 1. ValueError if a
    word has no segmentation.
    """
    raise NotImplementedError("2.1/unigram_lm: write em_step")


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
    raise NotImplementedError("2.1/unigram_lm: write prune")
