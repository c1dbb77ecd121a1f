"""Wrong programs for 11.6/rating_intervals, as edits of the solution."""

from grader.testing import edit

independent_ratings = edit(
    "return np.sqrt(np.maximum(own[:, None] + own - 2 * r.covariance, 0.0))", "return np.sqrt(own[:, None] + own)"
)

overlapping_intervals = edit(
    "p = 2 * norm.sf(np.abs(gaps) / errors)",
    "own = np.sqrt(np.diag(r.covariance))\n    p = 2 * norm.sf(np.abs(gaps) / (own[:, None] + own))",
)

anchor_has_no_error = edit(
    "return np.linalg.inv(h + 1 / m) - 1 / m", "return np.pad(np.linalg.inv(h[1:, 1:]), ((1, 0), (1, 0)))"
)

fisher_with_draws = edit("    if robust:\n", "    if False:\n")

singular_inverse = edit("return np.linalg.inv(h + 1 / m) - 1 / m", "return np.linalg.inv(h)")

scale_forgotten = edit("unit**2 * covariance", "covariance")

aggregated_scores = edit(
    "_sum_of_outer_products(a, b, (score - p) ** 2, m)", "_sum_of_squared_totals(a, b, score - p, m)"
).then(
    "def _pseudo_inverse(",
    "def _sum_of_squared_totals(a, b, residual, m):\n"
    "    totals = np.zeros((m, m))\n"
    "    np.add.at(totals, (a, b), residual)\n"
    "    totals = totals - totals.T\n"
    "    return np.diag((totals**2).sum(axis=1)) - totals**2\n\n\n"
    "def _pseudo_inverse(",
)

no_multiplicity = edit("significant = p * (m * (m - 1) / 2) <= alpha", "significant = p <= alpha")

resamples_per_pair = edit(
    "drawn = [battles[i] for i in rng.integers(0, n, n)]",
    "pairs = [frozenset(battle[:2]) for battle in battles]\n"
    "        drawn = []\n"
    "        for pair in dict.fromkeys(pairs):\n"
    "            own = [battle for battle, met in zip(battles, pairs, strict=True) if met == pair]\n"
    "            drawn += [own[i] for i in rng.integers(0, len(own), len(own))]",
)

nan_columns = edit(
    "            continue\n        if fitted.names == names:\n            used.append(fitted.rating)",
    "            used.append(np.full(len(names), np.nan))\n            continue\n"
    "        found = dict(zip(fitted.names, fitted.rating, strict=True))\n"
    "        used.append(np.array([found.get(name, np.nan) for name in names]))",
)
