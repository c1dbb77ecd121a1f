"""Wrong programs for 7.6/speculative_loop, as edits of the solution."""

from grader.testing import edit

ROLLBACK = "        for model in (target, draft):\n            model.truncate(min(model.length, len(text) - 1))\n"

no_rollback = (
    edit("(text + drafts)[draft.length :]", "(text + drafts)[draft.length :] or (text + drafts)[-1:]")
    .then(
        "target.forward((text + drafts)[target.length :])",
        "target.forward(text[-1 if target.length else 0 :] + drafts)",
    )
    .then(ROLLBACK, "")
)

draft_misses_last_token = edit("(text + drafts)[draft.length :]", "(text + drafts)[-1 if draft.length else 0 :]")

pending_token_twice = edit(
    "target.forward((text + drafts)[target.length :])",
    "target.forward((text[-1:] if target.length else []) + (text + drafts)[target.length :])",
).then("min(model.length, len(text) - 1)", "min(model.length, len(text) - (model is draft))")

rollback_to_draft_start = edit(
    ROLLBACK,
    "        target.truncate(min(target.length, len(text) - 1))\n"
    "        draft.truncate(min(draft.length, len(text) - len(new)))\n",
)

greedy_draft_in_sampling = edit("drafts.append(_sample(q[-1], rng))", "drafts.append(int(q[-1].argmax()))")

eos_ignored_in_run = edit(
    "        if eos_id is not None and eos_id in new:\n            new = new[: new.index(eos_id) + 1]\n",
    "        if new[-1] == eos_id:\n",
)

overshoots_max_new = edit("m = min(k, stop - len(text) - 1)", "m = k").then("len(text) == stop", "len(text) >= stop")

reprefills = edit("        p = target.forward(", "        target.truncate(0)\n        p = target.forward(")
