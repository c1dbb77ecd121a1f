"""Wrong programs, as edits of the solution."""

from grader.testing import edit

inverted = (
    edit("(norm_bias / s).to(norm_bias.dtype)", "(norm_bias * s).to(norm_bias.dtype)")
    .then("(norm_weight / s).to(norm_weight.dtype)", "(norm_weight * s).to(norm_weight.dtype)")
    .then("(w * s).to(w.dtype)", "(w / s).to(w.dtype)")
)

alpha_swapped = edit(
    "act_absmax.pow(alpha) / weight_absmax.pow(1 - alpha)", "act_absmax.pow(1 - alpha) / weight_absmax.pow(alpha)"
)

signed_max = edit("x.abs().amax(0).float()", "x.amax(0).float()").then("[w.abs().amax(0).float()", "[w.amax(0).float()")

row_maximum = edit(
    "weight_absmax = torch.stack([w.abs().amax(0).float() for w in weights]).amax(0)",
    "weight_absmax = torch.stack([w.abs().amax(1).float() for w in weights]).amax(0)",
)

bias_not_folded = edit("(norm_bias / s).to(norm_bias.dtype)", "norm_bias.clone()")

one_layer_maximum = edit("for w in weights]).amax(0)", "for w in weights[:1]]).amax(0)")

tensor_scale = edit("code_x, scale_x = _quantize_rows(x)", "code_x, scale_x = _quantize_rows(x.reshape(1, -1))").then(
    "    # Widened before", "    code_x = code_x.reshape(x.shape)\n    # Widened before"
)

float_sums = edit(
    "    sums = code_x.int() @ code_w.int().T\n    return sums * scale_x * scale_w.T",
    "    return (code_x * scale_x) @ (code_w * scale_w).T",
)
