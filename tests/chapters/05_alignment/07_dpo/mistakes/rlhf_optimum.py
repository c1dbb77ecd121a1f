"""Wrong programs for 5.7/rlhf_optimum, as edits of the solution."""

from grader.testing import edit

divides_instead_of_multiplies = edit("scores = ref_logprobs + rewards / beta", "scores = ref_logprobs + beta * rewards")

probability_space = edit(
    """    scores = ref_logprobs + rewards / beta
    log_z = scores.logsumexp(dim=-1)
    return scores - log_z[..., None], beta * log_z
""",
    """    weights = ref_logprobs.exp() * torch.exp(rewards / beta)
    z = weights.sum(dim=-1)
    return torch.log(weights / z[..., None]), beta * torch.log(z)
""",
)

kl_reversed = edit(
    """    gain = rewards - beta * (logprobs - ref_logprobs)
    return torch.where(p > 0, p * gain, 0.0).sum(dim=-1)
""",
    """    q = ref_logprobs.exp()
    kl = torch.where(q > 0, q * (ref_logprobs - logprobs), 0.0).sum(dim=-1)
    return (p * rewards).sum(dim=-1) - beta * kl
""",
)

forgets_reference = edit("scores = ref_logprobs + rewards / beta", "scores = rewards / beta")

hard_labels_in_population = edit(
    "wins = torch.sigmoid(rewards[:, None] - rewards[None, :])",
    "wins = (rewards[:, None] > rewards[None, :]).to(logits.dtype)",
)

nan_at_zero_probability = edit("torch.where(p > 0, p * gain, 0.0).sum(dim=-1)", "(p * gain).sum(dim=-1)")
