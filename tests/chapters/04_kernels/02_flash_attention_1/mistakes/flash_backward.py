"""Wrong programs, as edits of the solution."""

from grader.testing import edit

renormalises = edit(
    "dp = do_i @ v_j.mT\n", "dp = do_i @ v_j.mT\n            p = p / p.sum(dim=-1, keepdim=True).clamp_min(1e-30)\n"
)

delta_from_tile = edit("(dp - delta[..., rows, :])", "(dp - (p * dp).sum(dim=-1, keepdim=True))")

scale_once = edit("(dp - delta[..., rows, :]) * scale", "(dp - delta[..., rows, :])").then(
    "dq[..., rows, :] += ds @ k_j", "dq[..., rows, :] += ds @ k_j * scale"
)

dv_uses_ds = edit("dv[..., keys, :] += p.mT @ do_i", "dv[..., keys, :] += ds.mT @ do_i")

exp_of_inf = edit("lse = torch.where(lse == -torch.inf, torch.inf, lse)[..., None]", "lse = lse[..., None]").then(
    "p = p.masked_fill(key > query + (m - n), 0.0)", "p = p * (key <= query + (m - n))"
)

saves_probabilities = edit(
    "ctx.save_for_backward(q, k, v, o, lse)",
    "ctx.save_for_backward(q, k, v, o, lse, torch.exp(q @ k.mT * (scale or q.shape[-1] ** -0.5) - lse[..., None]))",
).then("q, k, v, o, lse = ctx.saved_tensors", "q, k, v, o, lse, _p = ctx.saved_tensors")

mask_after_exp_missing = edit("p = p.masked_fill(key > query + (m - n), 0.0)", "pass")

half_gradients = edit(
    "dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)",
    "dq, dk, dv = (torch.zeros_like(x, dtype=dtype) for x, dtype in zip((q, k, v), dtypes))",
)
