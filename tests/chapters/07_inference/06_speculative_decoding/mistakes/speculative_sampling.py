"""Wrong programs for 7.6/speculative_sampling, as edits of the solution."""

from grader.testing import edit

resamples_from_p = edit("return i, inverse_cdf(residual(p[i], q[i]), u_next)", "return i, inverse_cdf(p[i], u_next)")

residual_from_draft = edit("np.maximum(p - q, 0.0)", "np.maximum(q - p, 0.0)")

ratio_upside_down = edit("if not u_accept[i] * q[i, x] < p[i, x]:", "if not u_accept[i] * p[i, x] < q[i, x]:")

continues_after_rejection = edit(
    "    for i, x in enumerate(draft):\n        if q[i, x] == 0:",
    "    passed = [u_accept[i] * q[i, x] < p[i, x] for i, x in enumerate(draft)]\n"
    "    for i, x in enumerate(draft):\n        if q[i, x] == 0:",
).then("return i, inverse_cdf(residual", "return sum(passed), inverse_cdf(residual")

bonus_from_last_row = edit("return k, inverse_cdf(p[k], u_next)", "return k, inverse_cdf(p[max(k - 1, 0)], u_next)")

no_bonus = edit(
    "return k, inverse_cdf(p[k], u_next)",
    "return (k - 1, int(draft[-1])) if k else (0, inverse_cdf(p[0], u_next))",
)

accepts_at_equality = edit("if not u_accept[i] * q[i, x] < p[i, x]:", "if not u_accept[i] * q[i, x] <= p[i, x]:")

stale_target_for_candidates = edit("if u_accept[i] * q[x] < r[x]:", "if u_accept[i] * q[x] < p[x]:")
