"""Arena ratings with intervals, and ranks that do not claim too much (arXiv:2403.04132)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

### BEGIN SOLUTION
from scipy.sparse.csgraph import connected_components
from scipy.stats import norm

### END SOLUTION

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
    ### BEGIN SOLUTION
    names, a, b, score = _as_arrays(battles)
    m = len(names)
    points = np.zeros((m, m))
    np.add.at(points, (a, b), score)
    np.add.at(points, (b, a), 1 - score)
    theta = _maximum_likelihood(points)

    # Every matrix that is needed is a sum of weight * u u^T over battles.
    p = _sigmoid(theta[a] - theta[b])
    inverse = _pseudo_inverse(_sum_of_outer_products(a, b, p * (1 - p), m))
    covariance = inverse
    if robust:
        covariance = inverse @ _sum_of_outer_products(a, b, (score - p) ** 2, m) @ inverse
    unit = scale / math.log(10)
    return Ratings(names, 1000 + unit * theta, unit**2 * covariance)
    ### END SOLUTION


def difference(r: Ratings, a: str, b: str, confidence: float = 0.95) -> tuple[float, float, float, float]:
    """(rating of a - rating of b, its standard error, low, high).

    The variance of a difference needs the covariance: V_aa + V_bb - 2 V_ab. low and high are difference -+ z * standard
    error, z the (1 + confidence) / 2 quantile of the normal distribution. a = b gives four zeros.
    """
    ### BEGIN SOLUTION
    i, j = r.names.index(a), r.names.index(b)
    gap = float(r.rating[i] - r.rating[j])
    error = float(_errors_of_differences(r)[i, j])
    half = float(norm.ppf((1 + confidence) / 2)) * error
    return gap, error, gap - half, gap + half
    ### END SOLUTION


def rank_ranges(r: Ratings, alpha: float = 0.05) -> list[tuple[int, int]]:
    """The ranks that each model may have, in the order of names: (best, worst).

    All m (m - 1) / 2 differences are tested: two-sided z-tests with the standard error of `difference`. A pair is
    significantly different if its p-value * number of pairs <= alpha (Bonferroni). best = 1 + number of models that are
    significantly better (rated higher), worst = m - number of models that are significantly worse. Standard errors of
    different models are greater than 0.
    """
    ### BEGIN SOLUTION
    m = len(r.names)
    gaps = r.rating[:, None] - r.rating
    errors = _errors_of_differences(r)
    np.fill_diagonal(errors, 1.0)
    p = 2 * norm.sf(np.abs(gaps) / errors)
    significant = p * (m * (m - 1) / 2) <= alpha
    better = significant & (gaps < 0)
    worse = significant & (gaps > 0)
    return [(1 + int(up), m - int(down)) for up, down in zip(better.sum(axis=1), worse.sum(axis=1), strict=True)]
    ### END SOLUTION


def bootstrap_ratings(battles: list[Battle], rng: np.random.Generator, resamples: int = 100) -> tuple[np.ndarray, int]:
    """Ratings of resampled battles: (array of shape (number of resamples used, m), number of resamples skipped).

    For each resample in turn, i = rng.integers(0, n, n) draws n of the n battles with replacement, and battles[i[0]],
    battles[i[1]], ... are fitted (scale 400, average 1000). Columns are the sorted names of all battles. A resample
    that has no finite optimum, or in which one of these models does not occur, is skipped and counted: no NaN is
    returned. `battles` itself has a finite optimum.
    """
    ### BEGIN SOLUTION
    n = len(battles)
    names = _as_arrays(battles)[0]
    used = []
    for _ in range(resamples):
        drawn = [battles[i] for i in rng.integers(0, n, n)]
        try:
            fitted = fit_ratings(drawn)
        except ValueError:
            continue
        if fitted.names == names:
            used.append(fitted.rating)
    return np.array(used).reshape(-1, len(names)), resamples - len(used)
    ### END SOLUTION


### BEGIN SOLUTION
def _as_arrays(battles: list[Battle]) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, np.ndarray]:
    """(sorted names, index of model a, index of model b, score), the last three one per battle."""
    if not battles:
        raise ValueError("no battles")
    names = tuple(sorted({name for a, b, _ in battles for name in (a, b)}))
    index = {name: i for i, name in enumerate(names)}
    a = np.array([index[a] for a, _, _ in battles])
    b = np.array([index[b] for _, b, _ in battles])
    score = np.array([score for _, _, score in battles], dtype=float)
    if (a == b).any():
        raise ValueError("a model does not play against itself")
    if not ((score >= 0) & (score <= 1)).all():
        raise ValueError("scores lie in [0, 1]")
    return names, a, b, score


def _maximum_likelihood(points: np.ndarray) -> np.ndarray:
    """theta (m,), in natural units, with mean 0. points[i, j]: what i has scored against j."""
    if connected_components(points > 0, connection="strong", return_labels=False) > 1:
        raise ValueError("no finite optimum: some models are unbeaten by all others, or never met them")

    def log_likelihood(theta: np.ndarray) -> float:
        return -float(np.sum(points * np.logaddexp(0.0, theta - theta[:, None])))

    m = len(points)
    games = points + points.T
    theta = np.zeros(m)
    for _ in range(200):
        p = _sigmoid(theta[:, None] - theta)
        gradient = points.sum(axis=1) - (games * p).sum(axis=1)
        weights = games * p * (1 - p)
        # H + 11^T / m has the inverse H^+ + 11^T / m, and the gradient sums to 0.
        step = np.linalg.solve(np.diag(weights.sum(axis=1)) - weights + 1 / m, gradient)
        # Far from the optimum a full step may overshoot. Where it is tiny, rounding would decide: take it as it is.
        while np.abs(step).max() > 1e-4 and log_likelihood(theta + step) < log_likelihood(theta):
            step /= 2
        theta = theta + step - step.mean()
        if np.abs(step).max() < 1e-9:
            return theta
    raise ValueError("no finite optimum in sight")


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -x))


def _sum_of_outer_products(a: np.ndarray, b: np.ndarray, weight: np.ndarray, m: int) -> np.ndarray:
    """Sum over battles of weight * u u^T: minus the weight of each pair off the diagonal, rows sum to 0."""
    pairs = np.zeros((m, m))
    np.add.at(pairs, (a, b), weight)
    pairs = pairs + pairs.T
    return np.diag(pairs.sum(axis=1)) - pairs


def _pseudo_inverse(h: np.ndarray) -> np.ndarray:
    """H^+ without a cut-off to choose: the one direction in which H is singular is known."""
    m = len(h)
    return np.linalg.inv(h + 1 / m) - 1 / m


def _errors_of_differences(r: Ratings) -> np.ndarray:
    """(m, m): sqrt(V_aa + V_bb - 2 V_ab)."""
    own = np.diag(r.covariance)
    return np.sqrt(np.maximum(own[:, None] + own - 2 * r.covariance, 0.0))


### END SOLUTION
