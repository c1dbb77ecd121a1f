"""Wrong programs for 4.7/awq, as edits of the solution."""

from grader.testing import edit

GOT = "got = (x / s) @ group_quantize(w * s, bits, group).T"
LOSS = "loss += float((got - y).pow(2).mean())"

divides_weights = edit(GOT, "got = (x * s) @ group_quantize(w / s, bits, group).T")

weight_error = edit(LOSS, "loss += float((group_quantize(w * s, bits, group) / s - w).pow(2).mean())")

max_activation = edit("size = x.abs().mean(dim=0)", "size = x.abs().amax(dim=0)")

no_normalisation = edit("        s = s / (s.max() * s.min()).sqrt()\n", "")

one_matrix_only = edit("zip(weights, wanted, strict=True)", "zip(weights[:1], wanted[:1], strict=True)")

pooled_mean = edit(LOSS, "loss += float((got - y).pow(2).sum())")

fold_backwards = edit("return norm_weight / s,", "return norm_weight * s,")

clip_on_whole_output = edit(
    'error = (torch.einsum("ogi,gij->ogj", change, moments) * change).sum(dim=-1)',
    "error = (x @ change.reshape(out, n).T).pow(2).mean(dim=0)[:, None]",
)

against_clipped = edit(
    "group_quantize(clipped, bits, group).reshape(grouped.shape) - grouped",
    "(group_quantize(clipped, bits, group) - clipped).reshape(grouped.shape)",
)

zero_put_in = edit(
    "grouped.amin(dim=-1, keepdim=True), grouped.amax(dim=-1, keepdim=True)",
    "grouped.amin(dim=-1, keepdim=True).clamp(max=0), grouped.amax(dim=-1, keepdim=True).clamp(min=0)",
)
