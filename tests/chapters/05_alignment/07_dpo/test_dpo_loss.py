"""Hidden tests: the DPO loss. Oracle: scipy's log_expit in float64, gradients in closed form, identities."""

import numpy as np
import torch
from scipy.special import expit, log_expit

from grader.testing import booleans, close, equal, given, integers, points, raises, require, sampled_from

TYPES = ("sigmoid", "robust")


def double(*values):
    return tuple(torch.tensor([float(v)], dtype=torch.float64) for v in values)


WORKED = double(-10.0, -12.0, -11.0, -11.5)


def array(x):
    return x.detach().double().numpy()


def margin(chosen, rejected, ref_chosen=None, ref_rejected=None):
    h = array(chosen) - array(rejected)
    return h if ref_chosen is None else h - (array(ref_chosen) - array(ref_rejected))


def losses_of(x, e, loss_type):
    """x = beta h, float64 array."""
    right, flipped = log_expit(x), log_expit(-x)
    if loss_type == "sigmoid":
        return torch.from_numpy(-(1 - e) * right - e * flipped)
    return torch.from_numpy((-(1 - e) * right + e * flipped) / (1 - 2 * e))


def slopes_of(x, beta, e, loss_type):
    """d loss / d policy_chosen, in closed form."""
    if loss_type == "sigmoid":
        return torch.from_numpy(-beta * ((1 - e) * expit(-x) - e * expit(x)))
    return torch.from_numpy(-beta * ((1 - e) * expit(-x) + e * expit(x)) / (1 - 2 * e))


def triple(got):
    require(isinstance(got, tuple) and len(got) == 3, "not a tuple (losses, chosen_rewards, rejected_rewards)", got=got)
    return got


def draw(rng, b, spread, dtype=torch.float64, around=-60.0):
    """Policy and reference log-probs of chosen and rejected answers; the policy has drifted by about `spread`."""
    ref = around + 20.0 * rng.standard_normal((2, b))
    policy = ref + spread * rng.standard_normal((2, b))
    return [torch.from_numpy(x).to(dtype) for x in (*policy, *ref)]


@points(2)
def test_worked_example(submission):
    """policy -10, -12, reference -11, -11.5, beta 0.1: plain, smoothed, reference-free and robust."""
    for loss, rewards, options in (
        (0.620957, (0.1, -0.05), {}),
        (0.635957, (0.1, -0.05), {"label_smoothing": 0.1}),
        (0.598139, (-1.0, -1.2), {"reference_free": True}),
        (0.602207, (0.1, -0.05), {"label_smoothing": 0.1, "loss_type": "robust"}),
    ):
        losses, chosen, rejected = triple(submission.dpo_loss(*WORKED, **options))
        close(losses, [loss], atol=1e-5, rtol=0.0, what=f"losses with {options}")
        close(chosen, [rewards[0]], atol=1e-5, rtol=0.0, what=f"chosen_rewards with {options}")
        close(rejected, [rewards[1]], atol=1e-5, rtol=0.0, what=f"rejected_rewards with {options}")


@points(3)
@given(
    b=integers(1, 17),
    beta=sampled_from((0.1, 0.01, 0.5, 1, 3.0)),
    e=sampled_from((0.0, 0.1, 0.25, 0.45)),
    loss_type=sampled_from(TYPES),
    reference_free=booleans(),
    spread=sampled_from((0.0, 1.0, 5.0, 30.0)),
    wide=booleans(),
    contiguous=booleans(),
    seed=integers(0, 2**32 - 1),
    examples=40,
)
def test_matches_float64_oracle(submission, b, beta, e, loss_type, reference_free, spread, wide, contiguous, seed):
    """Losses and rewards for every combination of the arguments, one number per pair, in float32 and float64."""
    dtype = torch.float64 if wide else torch.float32
    logps = draw(np.random.default_rng(seed), b, spread, dtype)
    if not contiguous:
        logps = list(torch.stack(logps, dim=1).unbind(1))
    refs = (None, None) if reference_free else logps[2:]
    losses, chosen, rejected = triple(submission.dpo_loss(*logps, beta, e, reference_free, loss_type))
    x = beta * margin(*logps[:2], *refs)
    # A log-prob of size 100 carries an error of 100 roundings; torch's softplus leaves out what is below exp(-20).
    size = max(float(x.abs().max()) for x in logps)
    lost = 8.0 * torch.finfo(dtype).eps * beta * size
    close(losses, losses_of(x, e, loss_type), atol=(lost + 3e-9) / (1 - 2 * e), dtype=dtype, what="losses")
    base = [0.0, 0.0] if reference_free else [array(x) for x in refs]
    close(chosen, torch.from_numpy(beta * (array(logps[0]) - base[0])), atol=lost, dtype=dtype, what="chosen_rewards")
    close(
        rejected, torch.from_numpy(beta * (array(logps[1]) - base[1])), atol=lost, dtype=dtype, what="rejected_rewards"
    )


@points(1)
def test_starts_at_log_2(submission, rng):
    """A policy that is its own reference: log 2 for any beta, smoothing and type, and rewards of 0."""
    chosen, rejected, _, _ = draw(rng, 5, 1.0)
    for loss_type in TYPES:
        for beta in (0.01, 0.1, 2.0, 50.0):
            for e in (0.0, 0.1, 0.49):
                got = triple(submission.dpo_loss(chosen, rejected, chosen, rejected, beta, e, loss_type=loss_type))
                for x, expected in zip(got, (np.log(2.0), 0.0, 0.0), strict=True):
                    close(x, torch.full((5,), expected, dtype=torch.float64), rtol=1e-9, atol=1e-12)


@points(3)
def test_gradients(submission, rng):
    """The gradients on chosen and rejected in closed form, also where training starts; none on the references."""
    for loss_type in TYPES:
        for beta, e, spread in ((0.1, 0.0, 5.0), (0.1, 0.2, 20.0), (2.0, 0.05, 1.0), (0.7, 0.4, 3.0), (0.3, 0.1, 0.0)):
            for reference_free in (False, True):
                logps = draw(rng, 6, spread, around=-5.0)
                weights = torch.from_numpy(rng.standard_normal(6))
                logps = [x.requires_grad_() for x in logps]
                losses, _, _ = triple(submission.dpo_loss(*logps, beta, e, reference_free, loss_type))
                got = torch.autograd.grad((weights * losses).sum(), logps, allow_unused=True)
                x = beta * (margin(*logps[:2]) if reference_free else margin(*logps))
                slopes = weights * slopes_of(x, beta, e, loss_type)
                require(got[0] is not None and got[1] is not None, "no gradient on the policy's log-probs", got=got)
                # torch's softplus, a fair way to a logsigmoid, has the slope 1 beyond 20.
                atol = 1e-12 if np.abs(x).max() < 20.0 else 1e-8
                close(got[0], slopes, rtol=1e-12, atol=atol, what="gradient on policy_chosen_logps")
                close(got[1], -slopes, rtol=1e-12, atol=atol, what="gradient on policy_rejected_logps")
                for gradient in got[2:]:
                    require(gradient is None or not gradient.any(), "a gradient on a reference", got=gradient)


@points(2)
def test_robust_is_unbiased(submission, rng):
    """(1 - e) robust(h) + e robust(-h), the mean over flipped labels, is the clean sigmoid loss."""
    logps = draw(rng, 9, 15.0)
    flipped = [logps[1], logps[0], logps[3], logps[2]]
    for beta in (0.1, 1.0):
        clean, _, _ = triple(submission.dpo_loss(*logps, beta))
        for e in (0.0, 0.1, 0.3, 0.49):
            as_labelled, _, _ = triple(submission.dpo_loss(*logps, beta, e, loss_type="robust"))
            other_way, _, _ = triple(submission.dpo_loss(*flipped, beta, e, loss_type="robust"))
            mean = (1 - e) * as_labelled + e * other_way
            close(mean, clean.detach(), rtol=1e-9, atol=1e-8 / (1 - 2 * e), what=f"the mean over flips, e = {e}")


@points(2)
def test_extreme_margins(submission):
    """h = +-1e5 in float32: losses and gradients are finite, and right."""
    zero = torch.zeros(3)
    for loss_type in TYPES:
        for beta in (0.1, 2.0):
            for e in (0.0, 0.1):
                chosen = torch.tensor([1e5, -1e5, -3e3], requires_grad=True)
                losses, _, _ = triple(submission.dpo_loss(chosen, zero, zero, zero, beta, e, loss_type=loss_type))
                x = beta * margin(chosen, zero)
                expected = losses_of(x, e, loss_type)
                close(losses, expected, rtol=1e-5, atol=1e-6, by="element", dtype=torch.float32, what="losses")
                (slope,) = torch.autograd.grad(losses.sum(), chosen)
                expected = slopes_of(x, beta, e, loss_type)
                close(slope, expected, rtol=1e-5, atol=1e-7, by="element", dtype=torch.float32, what="gradient")


@points(2)
def test_smoothing_floor(submission):
    """Smoothed, the loss is least at beta h = log((1 - e) / e): log 9 for e = 0.1. The robust one falls everywhere."""
    for beta in (0.1, 1.5):
        for e in (0.1, 0.2, 0.02):
            best = np.log((1 - e) / e)
            x = torch.tensor([best - 0.5, best - 1e-3, best + 1e-3, best + 0.5, best + 5.0], dtype=torch.float64)
            chosen, zero = (x / beta).requires_grad_(), torch.zeros(5, dtype=torch.float64)
            losses, _, _ = triple(submission.dpo_loss(chosen, zero, zero, zero, beta, e))
            (slope,) = torch.autograd.grad(losses.sum(), chosen)
            signs = torch.sign(slope).tolist()
            require(signs == [-1.0, -1.0, 1.0, 1.0, 1.0], f"slopes around log({1 - e} / {e})", got=slope)
            losses, _, _ = triple(submission.dpo_loss(chosen, zero, zero, zero, beta, e, loss_type="robust"))
            (slope,) = torch.autograd.grad(losses.sum(), chosen)
            require(bool((slope < 0).all()), "the robust loss should fall everywhere", got=slope)


@points(1)
def test_rewards_detached(submission, rng):
    """Rewards do not require a gradient, with and without references that do; losses do."""
    for reference_free in (False, True):
        logps = [x.requires_grad_() for x in draw(rng, 4, 2.0)]
        losses, chosen, rejected = triple(submission.dpo_loss(*logps, reference_free=reference_free))
        require(losses.requires_grad, "the losses have lost their gradient")
        for name, rewards in (("chosen_rewards", chosen), ("rejected_rewards", rejected)):
            require(not rewards.requires_grad, f"{name} requires a gradient", got=rewards)


@points(2)
def test_metrics(submission, rng):
    """Four Python floats under TRL's names; margins is the mean difference; equal rewards count 0 for accuracy."""
    names = {"rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies"}
    for dtype in (torch.float32, torch.float64):
        for b in (1, 2, 5, 16):
            chosen, rejected = (torch.from_numpy(rng.standard_normal(b) + 1.0).to(dtype) for _ in range(2))
            rejected[::3] = chosen[::3]
            for pair in ((chosen, rejected), (rejected, chosen), (chosen, chosen)):
                got = submission.dpo_metrics(*pair)
                require(
                    isinstance(got, dict) and set(got) == names, "not a dict with these keys", got=got, expected=names
                )
                require(all(type(v) is float for v in got.values()), "values that are no Python floats", got=got)
                c, r = array(pair[0]), array(pair[1])
                means = (c.mean(), r.mean(), (c - r).mean(), (c > r).mean())
                keys = ("rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies")
                close(got, dict(zip(keys, map(float, means), strict=True)), rtol=1e-6, atol=2e-6)
    got = submission.dpo_metrics(torch.tensor([1.0, 0.5, -1.0, 3.0]), torch.tensor([0.0, 0.5, 2.0, 1.0]))
    equal(got["rewards/accuracies"], 0.5, what="accuracy with one tie, one wrong and two right")
    close(got["rewards/margins"], 0.0, atol=1e-7, what="margins")


@points(2)
def test_argument_errors(submission, rng):
    """Missing references, an unknown type, smoothing of 0.5 and more or below 0: ValueError."""
    chosen, rejected, ref_chosen, ref_rejected = logps = draw(rng, 3, 1.0)
    for refs in ((None, None), (ref_chosen, None), (None, ref_rejected)):
        for loss_type in TYPES:
            with raises(ValueError):
                submission.dpo_loss(chosen, rejected, *refs, loss_type=loss_type)
    for loss_type in ("", "Sigmoid", "ipo", "hinge", "dpo"):
        for reference_free in (False, True):
            with raises(ValueError):
                submission.dpo_loss(*logps, reference_free=reference_free, loss_type=loss_type)
    for e in (0.5, 0.7, 1.0, -0.1, -1e-9):
        for loss_type in TYPES:
            for reference_free in (False, True):
                with raises(ValueError):
                    submission.dpo_loss(*logps, 0.1, e, reference_free, loss_type)


@points(1)
def test_reference_free_ignores_references(submission, rng):
    """With reference_free, references of any value, one of them or none: always the same losses and rewards."""
    chosen, rejected, ref_chosen, ref_rejected = draw(rng, 4, 3.0)
    nan = torch.full((4,), torch.nan, dtype=torch.float64)
    for e, loss_type in ((0.0, "sigmoid"), (0.2, "sigmoid"), (0.2, "robust")):
        x = 0.3 * margin(chosen, rejected)
        for refs in ((None, None), (ref_chosen, ref_rejected), (nan, nan), (ref_chosen, None), (None, ref_rejected)):
            got = triple(submission.dpo_loss(chosen, rejected, *refs, 0.3, e, True, loss_type))
            close(got[0], losses_of(x, e, loss_type), rtol=1e-9, atol=1e-8, what="losses")
            close(got[1], 0.3 * chosen, what="chosen_rewards")
            close(got[2], 0.3 * rejected, what="rejected_rewards")
