"""Wrong programs for 5.7/dpo_train, as edits of the solution."""

from grader.testing import edit

aliased_reference = edit("reference = copy.deepcopy(policy).eval().requires_grad_(False)", "reference = policy").then(
    "            chosen_rewards, rejected_rewards = config.beta * (logps - ref_logps[:, index])",
    "            ref_logps[:, index] = logps.detach()\n"
    "            chosen_rewards, rejected_rewards = config.beta * (logps - ref_logps[:, index])",
)

reference_every_step = edit(
    "            chosen_rewards, rejected_rewards = config.beta * (logps - ref_logps[:, index])",
    "            ref_now = _completion_logps(reference, *_collate(batch, pad_id))\n"
    "            chosen_rewards, rejected_rewards = config.beta * (logps - ref_now)",
)

trains_on_prompt = edit(
    "        labels[row, len(prompt) : end] = torch.tensor(completion)", "        labels[row, :end] = ids[row, :end]"
)

reference_in_train_mode = edit("copy.deepcopy(policy).eval()", "copy.deepcopy(policy)")

chosen_rejected_swapped = edit(".view(2, -1)", ".view(-1, 2).T")

pads_counted = edit(
    "        labels[row, len(prompt) : end] = torch.tensor(completion)",
    "        labels[row, len(prompt) :] = ids[row, len(prompt) :]",
)

loss_only_logging = edit(
    """                    "loss": loss.item(),
                    "rewards/chosen": chosen_rewards.mean().item(),
                    "rewards/rejected": rejected_rewards.mean().item(),
                    "rewards/margins": margins.mean().item(),
                    "rewards/accuracies": (margins > 0).float().mean().item(),
""",
    """                    "loss": loss.item(),
""",
)

eos_is_padding = edit(
    "        labels[row, len(prompt) : end] = torch.tensor(completion)\n",
    "        labels[row, len(prompt) : end] = torch.tensor(completion)\n"
    "        labels[row, ids[row] == pad_id] = -100\n",
)
