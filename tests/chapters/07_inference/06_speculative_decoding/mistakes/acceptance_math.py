"""Wrong programs for 7.6/acceptance_math, as edits of the solution."""

from grader.testing import edit

forgets_bonus = edit(
    "    total, reached = 1.0, 1.0\n    for _ in range(k):", "    total, reached = 0.0, 1.0\n    for _ in range(k):"
)

mean_over_k = edit("judged = successes + failures", "judged = k * len(accepted)")

draft_cost_free = edit("return expected_tokens(alpha, k) / (k * c + 1)", "return expected_tokens(alpha, k)")

division_by_zero = edit(
    "    total, reached = 1.0, 1.0\n    for _ in range(k):\n        reached *= alpha\n"
    "        total += reached\n    return total\n",
    "    return (1 - alpha ** (k + 1)) / (1 - alpha)\n",
)

verification_free = edit("plain + step_time(batch * (k + 1))", "plain + step_time(batch)")

additive_levels = edit(
    "gain = outer * speedup(alpha_token, k_token, c_token)", "gain = outer + speedup(alpha_token, k_token, c_token) - 1"
)

budget_per_level = edit("range(budget // (k_step + 1))", "range(budget)")
