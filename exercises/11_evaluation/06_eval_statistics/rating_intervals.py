"""Arena ratings with intervals, and ranks that do not claim too much (arXiv:2403.04132)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

Battle = tuple[str, str, float]
"""(model_a, model_b, score of model_a in [0, 1]: 1 for a win, 0 for a loss, 0.5 for a draw)"""


@dataclass(frozen=True)
class Ratings:
    """m fitted ratings. Only their differences mean anything: the average is 1000 by convention."""

    names: tuple[str, ...]  # sorted
    rating: np.ndarray  # (m,), average 1000
    covariance: np.ndarray  # (m, m) in squared rating points; each row sums to 0


def fit_ratings(battles: list[Battle], *, robust: bool = True, scale: float = 400.0) -> Ratings:
    """Bradley-Terry ratings by maximum likelihood, with their covariance matrix.

    Model: P(a beats b) = 1 / (1 + 10^((r_b - r_a) / scale)). Maximised over r, with average 1000:
    sum over battles of s log P + (1 - s) log(1 - P). Accurate to 1e-6 rating points.

    Covariance, in natural units theta = r ln(10) / scale:

        H   = sum over battles of P (1 - P) u u^T     (u: +1 at a, -1 at b, else 0): the Fisher information
        g   = (s - P) u, the score vector of one battle
        V   = H^+ (sum over battles of g g^T) H^+     if robust (the sandwich)
        V   = H^+                                     if not: right only if every score is a coin toss, 0 or 1

    H is singular: a common shift of all ratings changes nothing. H^+ is its pseudo-inverse, which is the covariance
    of ratings whose average is held fixed: each of its rows sums to 0. `covariance` is V in squared rating points,
    accurate to 1e-6 relatively (to the largest entry).

    ValueError for no battles, a model against itself, a score outside [0, 1], and where no finite optimum exists: the
    graph with an edge a -> b whenever a has scored more than 0 against b must be strongly connected (every model can
    be reached from every other along its edges; see 11.2).
    """
    raise NotImplementedError("11.6/rating_intervals: write fit_ratings")


def difference(r: Ratings, a: str, b: str, confidence: float = 0.95) -> tuple[float, float, float, float]:
    """(rating of a - rating of b, its standard error, low, high).

    The variance of a difference needs the covariance: V_aa + V_bb - 2 V_ab. low and high are difference -+ z * standard
    error, z the (1 + confidence) / 2 quantile of the normal distribution. a = b gives four zeros.
    """
    raise NotImplementedError("11.6/rating_intervals: write difference")


def rank_ranges(r: Ratings, alpha: float = 0.05) -> list[tuple[int, int]]:
    """The ranks that each model may have, in the order of names: (best, worst).

    All m (m - 1) / 2 differences are tested: two-sided z-tests with the standard error of `difference`. A pair is
    significantly different if its p-value * number of pairs <= alpha (Bonferroni). best = 1 + number of models that are
    significantly better (rated higher), worst = m - number of models that are significantly worse. Standard errors of
    different models are greater than 0.
    """
    raise NotImplementedError("11.6/rating_intervals: write rank_ranges")


def bootstrap_ratings(battles: list[Battle], rng: np.random.Generator, resamples: int = 100) -> tuple[np.ndarray, int]:
    """Ratings of resampled battles: (array of shape (number of resamples used, m), number of resamples skipped).

    For each resample in turn, i = rng.integers(0, n, n) draws n of the n battles with replacement, and battles[i[0]],
    battles[i[1]], ... are fitted (scale 400, average 1000). Columns are the sorted names of all battles. A resample
    that has no finite optimum, or in which one of these models does not occur, is skipped and counted: no NaN is
    returned. `battles` itself has a finite optimum.
    """
    raise NotImplementedError("11.6/rating_intervals: write bootstrap_ratings")
