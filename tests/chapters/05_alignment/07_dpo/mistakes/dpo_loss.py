"""Wrong programs for 5.7/dpo_loss, as edits of the solution."""

from grader.testing import edit

log_sigmoid_naive = edit(
    "right = torch.nn.functional.logsigmoid(beta * h)", "right = torch.log(torch.sigmoid(beta * h))"
).then("flipped = torch.nn.functional.logsigmoid(-beta * h)", "flipped = torch.log(torch.sigmoid(-beta * h))")

reference_sign = edit("- (ref_chosen - ref_rejected)\n    right", "+ (ref_chosen - ref_rejected)\n    right")

beta_outside = edit("logsigmoid(beta * h)", "logsigmoid(h) * beta").then(
    "logsigmoid(-beta * h)", "logsigmoid(-h) * beta"
)

smoothing_on_margin = edit(
    "losses = -(1.0 - label_smoothing) * right - label_smoothing * flipped",
    "losses = -torch.nn.functional.logsigmoid((1.0 - 2.0 * label_smoothing) * beta * h)",
)

rewards_with_graph = edit("policy_chosen_logps.detach() - ref_chosen", "policy_chosen_logps - ref_chosen").then(
    "policy_rejected_logps.detach() - ref_rejected", "policy_rejected_logps - ref_rejected"
)

reference_gradients = edit(
    "ref_chosen_logps.detach(), ref_rejected_logps.detach()", "ref_chosen_logps, ref_rejected_logps"
)

returns_mean = edit("return losses, chosen_rewards", "return losses.mean(), chosen_rewards")

reference_free_rewards = edit(
    "    return losses, chosen_rewards, rejected_rewards\n",
    """    if reference_free and ref_chosen_logps is not None and ref_rejected_logps is not None:
        chosen_rewards = chosen_rewards - beta * ref_chosen_logps.detach()
        rejected_rewards = rejected_rewards - beta * ref_rejected_logps.detach()
    return losses, chosen_rewards, rejected_rewards
""",
)
