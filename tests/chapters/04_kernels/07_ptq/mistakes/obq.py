"""Wrong programs for 4.7/obq, as edits of the solution."""

from grader.testing import edit

REPAIR = "        w[free] -= error[i] / hinv[i, i] * hinv[:, i]\n"

no_repair = edit(REPAIR, "")

repairs_fixed_ones = edit("    while len(free):\n", "    everything = hinv\n    while len(free):\n").then(
    REPAIR, "        w -= error[i] / hinv[i, i] * everything[:, free[i]]\n"
)

stale_inverse = edit(
    "        hinv = eliminate(hinv, i)\n        free = torch.cat([free[:i], free[i + 1 :]])\n    return w, order",
    "        left = torch.arange(len(free)) != i\n"
    "        hinv, free = hinv[left][:, left], free[left]\n"
    "    return w, order",
)

hessian_not_inverse = edit("cost = error**2 / hinv.diagonal()", "cost = error**2 / h.diagonal()[free]").then(
    REPAIR, "        w[free] -= error[i] / h[free[i], free[i]] * hinv[:, i]\n"
)

error_alone = edit("cost = error**2 / hinv.diagonal()", "cost = error**2")

wrong_sign = edit(REPAIR, "        w[free] += error[i] / hinv[i, i] * hinv[:, i]\n")

left_to_right = edit("i = int(cost.argmin())  # the first of equals", "i = 0")

rounds_original = edit(
    "    order: list[int] = []\n",
    "    original = w.clone()\n    order: list[int] = []\n",
).then("q = round_to_grid(w[free], scale, zero, bits)", "q = round_to_grid(original[free], scale, zero, bits)")
