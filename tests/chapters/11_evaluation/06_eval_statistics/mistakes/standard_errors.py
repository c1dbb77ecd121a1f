"""Wrong programs for 11.6/standard_errors, as edits of the solution."""

from grader.testing import edit

population_std = edit("np.std(scores, ddof=1)", "np.std(scores)")

binomial_formula_for_scores = edit(
    "return float(np.std(scores, ddof=1) / math.sqrt(len(scores)))",
    "p = float(np.mean(scores))\n    return math.sqrt(max(0.0, p * (1 - p)) / (len(scores) - 1))",
)

ignores_clusters = edit(
    "return float(math.sqrt(groups / (groups - 1) * squares) / len(scores))", "return standard_error(scores)"
)

mean_of_cluster_means = edit(
    "return float(math.sqrt(groups / (groups - 1) * squares) / len(scores))",
    "sizes = {cluster: list(clusters).count(cluster) for cluster in sums}\n"
    "    return float(np.std([sums[cluster] / sizes[cluster] for cluster in sums], ddof=1) / math.sqrt(groups))",
)

squares_before_summing = edit("sums.get(cluster, 0.0) + residual", "sums.get(cluster, 0.0) + residual**2").then(
    "squares = sum(total**2 for total in sums.values())", "squares = sum(sums.values())"
)

no_small_sample_factor = edit("math.sqrt(groups / (groups - 1) * squares)", "math.sqrt(squares)")

normal_quantile = edit("from scipy.stats import t\n", "from scipy.stats import norm\n").then(
    "t.ppf((1 + confidence) / 2, repetitions - 1)", "norm.ppf((1 + confidence) / 2)"
)

plug_in_pass_at_k = edit("return float(0.0 - np.expm1(_log_no_success(n, c, k)))", "return 1 - (1 - c / n) ** k").then(
    "return float(np.exp(2 * _log_no_success(n, c, k)) - np.exp(_log_no_success(n, c, 2 * k)))",
    "return (k * (1 - c / n) ** (k - 1)) ** 2 * c / n * (1 - c / n) / n",
)

answers_as_questions = edit(
    '"se_questions": standard_error(values),',
    '"se_questions": float(np.std(values, ddof=1)) / math.sqrt(sum(n for n, _ in counts)),',
)

adds_noise_twice = edit(
    '"se_questions": standard_error(values),',
    '"se_questions": math.sqrt(standard_error(values) ** 2 + sum(variances) / len(counts) ** 2),',
)
