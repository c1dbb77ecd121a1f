"""Wrong programs for 11.6/intervals, as edits of the solution."""

from grader.testing import edit

wald = (
    edit("shrink = 1 + z**2 / n", "shrink = 1.0")
    .then("centre = (p + z**2 / (2 * n)) / shrink", "centre = p")
    .then("math.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)", "math.sqrt(p * (1 - p) / n)")
)

wilson_not_recentred = edit("centre = (p + z**2 / (2 * n)) / shrink", "centre = p")

beta_off_by_one = (
    edit("beta.ppf(tail, successes, n - successes + 1)", "beta.ppf(tail, successes, n - successes)")
    .then("beta.ppf(1 - tail, successes + 1, n - successes)", "beta.ppf(1 - tail, successes, n - successes)")
    .then("if successes > 0 else 0.0", "if 0 < successes < n else successes / n")
    .then("if successes < n else 1.0", "if 0 < successes < n else successes / n")
)

one_sided_level = (
    edit("norm.ppf((1 + confidence) / 2)", "norm.ppf(confidence)")
    .then("tail = (1 - confidence) / 2", "tail = 1 - confidence")
    .then(
        "levels = np.array([(1 - confidence) / 2, (1 + confidence) / 2])",
        "levels = np.array([1 - confidence, confidence])",
    )
)

basic_for_percentile = edit(
    "low, high = np.quantile(values, levels)",
    'low, high = np.quantile(values, levels)\n    if method == "percentile":\n'
    "        low, high = 2 * statistic(x) - high, 2 * statistic(x) - low",
)

z0_without_ties = edit("np.mean(values < estimate) + np.mean(values == estimate) / 2", "np.mean(values < estimate)")

acceleration_sign = edit("d = left_out.mean() - left_out", "d = left_out - left_out.mean()")

bias_once = edit("norm.cdf(z0 + shifted / (1 - a * shifted))", "norm.cdf(z0 + shifted)")

resamples_questions_in_clusters = edit(
    "drawn = rng.integers(0, groups, (resamples, groups))\n"
    "    means = totals[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)",
    "means = np.asarray(scores)[rng.integers(0, len(scores), (resamples, len(scores)))].mean(axis=1)",
)

mean_of_cluster_means = edit(
    "totals[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)", "(totals / sizes)[drawn].mean(axis=1)"
)

python_loop = edit(
    "values = statistic(x[rng.integers(0, n, (resamples, n))])",
    "values = np.array([float(statistic(x[row])) for row in rng.integers(0, n, (resamples, n))])",
)
