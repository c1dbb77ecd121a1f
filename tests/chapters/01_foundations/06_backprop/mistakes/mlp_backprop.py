"""Wrong programs for 1.6/mlp_backprop, as edits of the solution."""

from grader.testing import edit

forgets_mean = edit("dlogits[rows] = gradient / len(rows)", "dlogits[rows] = gradient")

mean_over_all_rows = edit("dlogits[rows] = gradient / len(rows)", "dlogits[rows] = gradient / len(labels)").then(
    "loss = -log_p[right].mean()", "loss = -log_p[right].sum() / len(labels)"
)

activation_derivative_at_output = edit(
    "d = d * _slope(activation, z_below)", 'd = d * _slope(activation, h if activation == "gelu" else z_below)'
)

tanh_gelu = edit(
    "return 0.5 * (1.0 + erf(z / np.sqrt(2.0)))",
    "return 0.5 * (1.0 + np.tanh(0.7978845608 * (z + 0.044715 * z**3)))",
)

bias_mean = edit("d.sum(axis=0)", "d.mean(axis=0)")

unstable_softmax = edit("z = logits[rows] - logits[rows].max(axis=1, keepdims=True)", "z = logits[rows]")

relu_mask_from_gradient = edit(
    "d = d * _slope(activation, z_below)", 'd = d * _slope(activation, d if activation == "relu" else z_below)'
)

transposed_dw = edit("d.T @ h", "h.T @ d")

no_dx = edit("        d = d @ W\n        if layer > 0:\n", "        if layer > 0:\n            d = d @ W\n")
