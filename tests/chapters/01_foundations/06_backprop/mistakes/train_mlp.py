"""Wrong programs for 1.6/train_mlp, as edits of the solution."""

from grader.testing import edit

_DRAW = "W = rng.normal(0.0, gain / np.sqrt(fan_in), size=(fan_out, fan_in))"

zero_or_equal_weights = edit(_DRAW, "W = np.full((fan_out, fan_in), gain / np.sqrt(fan_in))")

xavier_for_relu = edit('"relu": np.sqrt(2.0)', '"relu": 1.0')

fan_out_instead_of_fan_in = edit("gain / np.sqrt(fan_in)", "gain / np.sqrt(fan_out)")

gain_on_last_layer = edit("gain = gains[nonlinearity] if layer < len(sizes) - 1 else 1.0", "gain = gains[nonlinearity]")

sampling_with_replacement = edit("order = rng.permutation(n)", "order = rng.integers(0, n, n)")

drops_last_batch = edit("for start in range(0, n, batch)]", "for start in range(0, n - batch + 1, batch)]")

shuffles_once = edit(
    "    for _ in range(epochs):\n        for rows in minibatches(len(x), batch, rng):\n",
    "    epoch = minibatches(len(x), batch, rng)\n    for _ in range(epochs):\n        for rows in epoch:\n",
)

decays_biases = edit("decay = weight_decay * p if p.ndim == 2 else 0.0", "decay = weight_decay * p")

loss_after_update = edit("            losses.append(loss)\n", "").then(
    "                p -= lr * v\n",
    "                p -= lr * v\n"
    "            losses.append(_cross_entropy(_forward(_as_layers(weights), x[rows], nonlinearity)[0], y[rows])[0])\n",
)
