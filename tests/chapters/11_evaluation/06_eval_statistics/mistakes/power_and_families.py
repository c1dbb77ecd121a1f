"""Wrong programs for 11.6/power_and_families, as edits of the solution."""

from grader.testing import edit

unpaired_variance = edit("return omega2 + s2_a / k_a + s2_b / k_b", "return 2 * omega2 + s2_a / k_a + s2_b / k_b")

one_sided_z = edit(
    "return float(norm.ppf(1 - alpha / 2) + norm.ppf(power))", "return float(norm.ppf(1 - alpha) + norm.ppf(power))"
)

noise_over_n_only = edit("return omega2 + s2_a / k_a + s2_b / k_b", "return (omega2 + s2_a) / k_a + s2_b / k_b")

floor = edit("return nearest if abs(n - nearest) <= 1e-9 * n else math.ceil(n)", "return math.floor(n)")

one_region = edit("norm.sf(z - shift) + norm.cdf(-z - shift)", "norm.sf(z - abs(shift))")

ignores_discordance = edit("m = np.arange(1, n + 1)", "m = np.array([max(1, round(n * differ))])").then(
    "np.sum(binom.pmf(m, n, differ) * (few_gains + few_losses))", "np.sum(few_gains + few_losses)"
)

plain_bonferroni = edit("steps = p[order] * np.arange(m, 0, -1)", "steps = p[order] * m")

bh_not_monotone = edit("np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0)", "np.minimum(steps, 1.0)")

holm_running_min = edit(
    "np.minimum(np.maximum.accumulate(steps), 1.0)", "np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0)"
)

clips_late = edit("np.minimum(np.maximum.accumulate(steps), 1.0)", "np.maximum.accumulate(steps)")

sorted_output = edit(
    "adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)",
    "adjusted[:] = np.minimum(np.maximum.accumulate(steps), 1.0)",
).then(
    "adjusted[order] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0)",
    "adjusted[:] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0)",
)
