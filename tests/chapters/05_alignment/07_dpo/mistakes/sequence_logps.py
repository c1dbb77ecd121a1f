"""Wrong programs for 5.7/sequence_logps, as edits of the solution."""

from grader.testing import edit

no_shift = edit("rows = logits[b, :-1][scored[b]]", "rows = logits[b, 1:][scored[b]]")

double_shift = edit("targets = labels[:, 1:]", "targets = labels[:, 2:]").then(
    "rows = logits[b, :-1][scored[b]]", "rows = logits[b, :-2][scored[b]]"
)

gather_minus_100 = edit(
    "    counts = scored.sum(dim=1)\n", "    counts = scored.sum(dim=1)\n    labels[labels == IGNORE] = 0\n"
)

mean_over_length = edit("logps = logps / counts.clamp(min=1)", "logps = logps / labels.shape[1]")

mask_after_sum = edit("rows = logits[b, :-1][scored[b]]", "rows = logits[b, :-1]").then(
    "targets[b][scored[b]][:, None]", "targets[b].masked_fill(~scored[b], 0)[:, None]"
)

full_log_softmax = edit(
    "    sums = []\n",
    "    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)\n    sums = []\n",
)

two_forwards = edit(
    "    logps, _ = sequence_logps(model(ids, mask), labels, average)\n",
    """    halves = zip(ids.chunk(2), mask.chunk(2))
    logps, _ = sequence_logps(torch.cat([model(*half) for half in halves]), labels, average)
""",
)

mask_from_pad_id = edit("mask = (places <= used[:, None]).long()", "mask = (ids != pad_id).long()")

mask_from_labels = edit("mask = (places <= used[:, None]).long()", "mask = (labels != IGNORE).long()")
