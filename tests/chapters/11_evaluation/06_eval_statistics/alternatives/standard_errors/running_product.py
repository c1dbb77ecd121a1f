"""Codex's way: np.prod of 1 - k / i; np.bincount on numbered labels; everything in numpy."""

import numpy as np
from scipy.special import stdtrit


def standard_error(scores):
    x = np.asarray(scores, dtype=np.float64)
    if x.size < 2:
        raise ValueError("two scores at least")
    return np.sqrt(((x - x.mean()) ** 2).sum() / (x.size - 1) / x.size)


def _numbered(clusters):
    seen = {}
    return np.array([seen.setdefault(label, len(seen)) for label in clusters]), len(seen)


def clustered_standard_error(scores, clusters):
    x = np.asarray(scores, dtype=np.float64)
    if x.size != len(clusters):
        raise ValueError("one label per score")
    number, groups = _numbered(clusters)
    if groups < 2:
        raise ValueError("two clusters at least")
    totals = np.bincount(number, weights=x - x.mean())
    return np.sqrt(totals @ totals * groups / (groups - 1.0)) / x.size


def mean_interval(scores, clusters=None, confidence=0.95):
    se = standard_error(scores) if clusters is None else clustered_standard_error(scores, clusters)
    df = (len(scores) if clusters is None else _numbered(clusters)[1]) - 1
    reach = stdtrit(df, 0.5 + confidence / 2) * se
    return np.mean(scores) - reach, np.mean(scores) + reach


def design_effect(scores, clusters):
    top, bottom = clustered_standard_error(scores, clusters), standard_error(scores)
    if bottom == 0:
        raise ValueError("all scores are equal")
    return np.square(top / bottom)


def _no_success(n, c, k):
    if n - c < k:
        return 0.0
    return np.prod(1.0 - k / np.arange(n - c + 1, n + 1))


def pass_at_k(n, c, k):
    if not 0 < k <= n or not 0 <= c <= n:
        raise ValueError((n, c, k))
    return 1.0 - _no_success(n, c, k)


def pass_at_k_variance(n, c, k):
    if not 0 < k <= n // 2 or not 0 <= c <= n:
        raise ValueError((n, c, k))
    return _no_success(n, c, k) ** 2 - _no_success(n, c, 2 * k)


def benchmark_pass_at_k(counts, k):
    v = np.array([pass_at_k(n, c, k) for n, c in counts])
    u = np.array([pass_at_k_variance(n, c, k) for n, c in counts])
    return dict(mean=v.mean(), se_questions=standard_error(v), se_answers=np.sqrt(u.sum()) / len(v))  # noqa: C408
