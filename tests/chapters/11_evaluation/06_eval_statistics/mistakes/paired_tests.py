"""Wrong programs for 11.6/paired_tests, as edits of the solution."""

from grader.testing import edit

unpaired = edit(
    "se, repetitions = float(d.std(ddof=1) / math.sqrt(n)), n",
    "se, repetitions = math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / n), n",
)

chi_square_mcnemar = edit(
    "p = 2 * float(binom.cdf(fewer, n, 0.5))", "p = math.erfc(abs(gains - losses) / math.sqrt(2 * max(n, 1)))"
)

concordant_counted = edit("fewer, n = min(gains, losses), gains + losses", "fewer, n = min(gains, losses), len(a)")

one_sided = edit("p = 2 * float(binom.cdf(fewer, n, 0.5))", "p = float(binom.cdf(fewer, n, 0.5))").then(
    "p = float(2 * t.sf(abs(diff) / se, repetitions - 1))", "p = float(t.sf(abs(diff) / se, repetitions - 1))"
)

mid_p_halved_once = edit("p -= float(binom.pmf(fewer, n, 0.5))", "p -= float(binom.pmf(fewer, n, 0.5)) / 2")

shuffles_labels_across_questions = edit(
    "signs = 2 * rng.integers(0, 2, (resamples, m)) - 1\n        sums = signs @ d",
    "signs = rng.permuted(np.tile(np.sign(d), (resamples, 1)), axis=1)\n        sums = signs @ np.abs(d)",
)

no_plus_one = edit("return (1 + extreme) / (1 + resamples)", "return extreme / resamples")

strict_inequality = edit("np.abs(sums) >= abs(d.sum()) - tolerance", "np.abs(sums) > abs(d.sum()) + tolerance")

rounding_ties = edit("np.abs(sums) >= abs(d.sum()) - tolerance", "np.abs(sums) >= abs(d.sum())")

z_for_t = (
    edit("from scipy.stats import binom, t\n", "from scipy.stats import binom, norm\n")
    .then("t.ppf((1 + confidence) / 2, repetitions - 1)", "norm.ppf((1 + confidence) / 2)")
    .then("t.sf(abs(diff) / se, repetitions - 1)", "norm.sf(abs(diff) / se)")
)

zeros_flipped = edit("    d = d[d != 0]\n", "")
