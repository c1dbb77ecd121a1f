"""Wrong programs for 4.7/gptq, as edits of the solution."""

from grader.testing import edit

FACTOR = "return torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(h)), upper=True)"
BEHIND = "        w[:, end:] -= errors @ u[start:end, end:]\n"
DAMPING = "    h.diagonal().add_(damp * h.diagonal().mean())\n"
DEAD = "    dead = h.diagonal() == 0\n"
ERROR = "            error = (w[:, j] - (code - z) * s) / u[j, j]\n"

no_cholesky = edit(FACTOR, "return torch.cholesky_inverse(torch.linalg.cholesky(h))")

lower_factor = edit(FACTOR, "return torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(h)))")

rhs_not_updated = edit(BEHIND, "")

updates_everything = (
    edit("w[:, j:end] -= torch.outer(error, u[j, j:end])", "w[:, j:] -= torch.outer(error, u[j, j:])")
    .then(BEHIND, "")
    .then("if j + size > end:", "if False:")
)

group_from_original = edit(
    "    if act_order:\n        for g, first in enumerate(range(0, n, size)):  # static groups\n"
    "            scale[:, g], zero[:, g] = _grid(w[:, first : first + size], bits)\n",
    "    for g, first in enumerate(range(0, n, size)):\n"
    "        scale[:, g], zero[:, g] = _grid(w[:, first : first + size], bits)\n"
    "    if act_order:\n",
).then("if not act_order and column % size == 0:", "if False:")

stale_group = edit("if j + size > end:", "if False:")

order_not_undone = edit("codes[:, column] = code", "codes[:, j] = code")

damps_before_dead = edit(DAMPING, "").then(DEAD, DAMPING + DEAD)

mean_without_dead = edit(DAMPING, "    h.diagonal().add_(shift)\n").then(
    DEAD, "    shift = damp * h.diagonal().mean()\n" + DEAD
)

quantises_late = edit(ERROR, "            w[:, j] = (code - z) * s\n" + ERROR)
