"""Wrong programs for 2.3/sdpa, as edits of the solution."""

from grader.testing import edit

no_scale = edit("scale = d**-0.5 if scale is None else float(scale)", "scale = 1.0 if scale is None else float(scale)")

softmax_wrong_axis = edit("top = scores.max(axis=-1, keepdims=True)", "top = scores.max(axis=-2, keepdims=True)").then(
    "total = weights.sum(axis=-1, keepdims=True)", "total = weights.sum(axis=-2, keepdims=True)"
)

inverted_mask = edit("allowed = allowed & mask", "allowed = allowed & ~mask")

multiplies_after_softmax = edit("    scores = np.where(allowed, scores, -np.inf)\n", "").then(
    "return weights / np.where(total == 0.0, 1.0, total)",
    "return np.where(allowed, weights / np.where(total == 0.0, 1.0, total), 0.0)",
)

top_left_causal = edit("np.arange(lq)[:, None] + (lk - lq)", "np.arange(lq)[:, None]")

nan_on_empty_row = edit("    top = np.where(top == -np.inf, 0.0, top)\n", "")

large_negative_instead_of_inf = edit(
    "scores = np.where(allowed, scores, -np.inf)", "scores = np.where(allowed & (scores > -np.inf), scores, -1e9)"
)

float16_accumulation = edit("dtype = np.dtype(np.float32) if q.dtype == np.float16 else q.dtype", "dtype = q.dtype")
