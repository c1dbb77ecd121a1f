"""Wrong programs for 5.7/preference_losses, as edits of the solution."""

from grader.testing import edit

ipo_without_length = edit("chosen_gain / chosen_len - rejected_gain / rejected_len", "chosen_gain - rejected_gain")

simpo_margin_scaled = edit(
    "beta * (chosen_mean - rejected_mean) - gamma", "beta * (chosen_mean - rejected_mean - gamma)"
)

simpo_uses_sums = edit("beta * (chosen_mean - rejected_mean) - gamma", "beta * (chosen_sum - rejected_sum) - gamma")

orpo_log1p_exp = edit("torch.log(-torch.expm1(mean))", "torch.log1p(-torch.exp(mean))")

orpo_on_sums = edit(
    "_log_odds(chosen_mean) - _log_odds(rejected_mean)", "_log_odds(chosen_sum) - _log_odds(rejected_sum)"
)

kto_kl_with_gradient = edit(
    "(kl_policy_sum - kl_ref_sum).mean().clamp(min=0).detach()", "(kl_policy_sum - kl_ref_sum).mean().clamp(min=0)"
)

kto_kl_of_the_batch = edit("z = (kl_policy_sum - kl_ref_sum)", "z = (policy_sum - ref_sum)")

kto_negative_kl = edit(".mean().clamp(min=0).detach()", ".mean().detach()")

kto_same_sign = edit("torch.where(desirable, surplus, -surplus)", "surplus")
