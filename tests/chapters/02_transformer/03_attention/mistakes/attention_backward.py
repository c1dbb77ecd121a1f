"""Wrong programs for 2.3/attention_backward, as edits of the solution."""

from grader.testing import edit

missing_row_term = edit("ds = p * (dp - row)", "ds = p * dp")

scale_forgotten = edit("dk = scale * (np.swapaxes(ds, -1, -2) @ q)", "dk = np.swapaxes(ds, -1, -2) @ q")

recomputes_softmax_from_scratch = edit(
    "p = np.exp(scores - safe_lse[..., None])",
    "top = np.maximum(scores.max(axis=-1, keepdims=True), -1e300)\n"
    "    p = np.exp(scores - top)\n"
    "    p = p / np.maximum(p.sum(axis=-1, keepdims=True), 1e-300)",
)

d_from_wrong_axis = edit("row = (do * o).sum(axis=-1, keepdims=True)", "row = (do * o).sum(axis=-2, keepdims=True)")

dk_transposed = edit("dk = scale * (np.swapaxes(ds, -1, -2) @ q)", "dk = scale * (ds @ q)")

mask_not_reapplied = edit(
    "    scores = _masked_scores(q, k, causal, scale)\n    safe_lse",
    "    scores = _masked_scores(q, k, False, scale)\n    safe_lse",
)

lse_without_max = edit("top + np.log(safe_total)", "np.log(safe_total)")
