"""Hidden tests: DPO's relatives. Oracles: the formulas in float64, written another way, and their autograd."""

import math

import torch

from grader.testing import booleans, close, equal, given, integers, points, raises, require, sampled_from

KINDS = ("ipo", "hinge", "simpo", "cpo", "orpo")


def minus_log_sigmoid(x):
    return torch.logaddexp(torch.zeros_like(x), -x)


def oracle(kind, s_c, s_r, n_c, n_r, f_c, f_r, beta=0.1, gamma=0.5, alpha=1.0):
    """The table of the docstring, in the dtype of the sums. Mean log-probs must not be closer to 0 than 1e-4."""
    a_c, a_r = s_c / n_c, s_r / n_r
    if kind == "ipo":
        return (a_c - a_r - f_c / n_c + f_r / n_r - 0.5 / beta).square()
    if kind == "hinge":
        return (1 - beta * (s_c - s_r) + beta * (f_c - f_r)).clamp(min=0)
    if kind == "simpo":
        return minus_log_sigmoid(beta * a_c - beta * a_r - gamma)
    if kind == "cpo":
        return minus_log_sigmoid(beta * s_c - beta * s_r) - alpha * a_c
    return minus_log_sigmoid(torch.logit(a_c.exp()) - torch.logit(a_r.exp())) * beta - a_c


def log_odds(a):
    """For a float, exact near 0 too; a is never above -1e-10."""
    a = min(a, -1e-10)
    return a - math.log(-math.expm1(a))


def orpo_by_hand(a_c, a_r, beta):
    """(loss, its slopes in a_c and a_r), for floats; a_c and a_r are below 0."""
    x = log_odds(a_c) - log_odds(a_r)
    slope = beta / (1 + math.exp(x)) if x < 500 else 0.0
    loss = -a_c - beta * (min(x, 0.0) - math.log1p(math.exp(-abs(x))))
    return loss, (-1 - slope / -math.expm1(a_c), slope / -math.expm1(a_r))


def kto_oracle(policy, ref, desirable, kl_policy, kl_ref, beta=0.1, good=1.0, bad=1.0):
    z = max(0.0, float((kl_policy - kl_ref).sum()) / len(kl_policy))
    sign = 2.0 * desirable.to(policy.dtype) - 1.0
    weight = torch.where(desirable, torch.tensor(good).double(), torch.tensor(bad).double()).to(policy.dtype)
    return weight / (1 + torch.exp(sign * beta * (policy - ref - z))), z


def strided(x, apart):
    """The same values, every second one of a larger storage if `apart`."""
    if not apart:
        return x
    wide = torch.zeros(2 * len(x), dtype=x.dtype)
    wide[::2] = x
    return wide[::2]


def draw_sums(generator, batch, dtype):
    """Log-probs of `batch` answers: (sums by the policy, sums by the reference, lengths)."""
    lengths = torch.randint(1, 130, (batch,), generator=generator)
    per_token = -torch.exp(-4.0 + 6.0 * torch.rand(batch, generator=generator, dtype=torch.float64))
    sums = per_token * lengths
    ref = sums - torch.randn(batch, generator=generator, dtype=torch.float64) * (1.0 + 0.1 * sums.abs()).sqrt() - 0.5
    return sums.to(dtype), ref.to(dtype), lengths


def draw_pairs(seed, batch, dtype=torch.float64, apart=False):
    """(chosen_sum, rejected_sum, chosen_len, rejected_len), and the references as keywords."""
    generator = torch.Generator().manual_seed(seed)
    s_c, f_c, n_c = draw_sums(generator, batch, dtype)
    s_r, f_r, n_r = draw_sums(generator, batch, dtype)
    s_c, s_r, n_c, n_r, f_c, f_r = (strided(x, apart) for x in (s_c, s_r, n_c, n_r, f_c, f_r))
    return (s_c, s_r, n_c, n_r), {"ref_chosen_sum": f_c, "ref_rejected_sum": f_r}


def draw_answers(seed, batch, dtype=torch.float64, apart=False):
    """policy_sum, ref_sum, desirable, kl_policy_sum, kl_ref_sum."""
    generator = torch.Generator().manual_seed(seed)
    policy, ref, _ = draw_sums(generator, batch, dtype)
    kl_policy, kl_ref, _ = draw_sums(generator, batch, dtype)
    desirable = torch.rand(batch, generator=generator) < 0.5
    return tuple(strided(x, apart) for x in (policy, ref, desirable, kl_policy, kl_ref))


def doubled(values):
    return [x.double() for x in values]


def pair_gradients(losses, positional, named):
    """Gradients of sum(w * loss), w = 1, 2, 3, ..., with respect to s_c, s_r, f_c, f_r (None where there is none)."""
    weights = torch.arange(1, len(losses) + 1, dtype=losses.dtype)
    leaves = (*positional[:2], *named.values())
    return torch.autograd.grad((weights * losses).sum(), leaves, allow_unused=True)


def no_gradient(gradient, what):
    require(gradient is None or not bool(gradient.any()), f"gradient reaches {what}", got=gradient)


@points(3)
def test_worked_pairs(submission):
    """Sums -10 and -12, references -11 and -11.5, lengths 5 and 8: the five losses by hand."""
    pair = (torch.tensor([-10.0]), torch.tensor([-12.0]), torch.tensor([5]), torch.tensor([8]))
    refs = {"ref_chosen_sum": torch.tensor([-11.0]), "ref_rejected_sum": torch.tensor([-11.5])}
    for kind, expected in (("ipo", 22.443906), ("hinge", 0.85), ("cpo", 2.598139), ("orpo", 2.104206)):
        close(submission.pairwise_loss(kind, *pair, **refs), [expected], rtol=1e-5, what=kind)
    close(submission.pairwise_loss("simpo", *pair, beta=2.0, gamma=1.0), [2.126928], rtol=1e-5, what="simpo")
    # 0.1 * (-2 + 1.5) - 0.5 = -0.55
    close(submission.pairwise_loss("simpo", *pair), [math.log1p(math.exp(0.55))], rtol=1e-5, what="simpo, defaults")


@points(4)
@given(
    batch=integers(1, 17),
    beta=sampled_from((0.1, 0.05, 0.5, 2.0)),
    gamma=sampled_from((0.5, 0.0, 1.6)),
    alpha=sampled_from((1.0, 0.0, 0.3)),
    single=booleans(),
    apart=booleans(),
    seed=integers(0, 2**32 - 1),
    examples=20,
)
def test_matches_float64_oracle(submission, batch, beta, gamma, alpha, single, apart, seed):
    """Batches of 1 to 17 pairs of unequal length, every beta, gamma, alpha; float32 and float64; strided too."""
    dtype = torch.float32 if single else torch.float64
    pairs, refs = draw_pairs(seed, batch, dtype, apart)
    # Differences of sums of size s carry rounding of about s * eps.
    largest = float(max(x.abs().max() for x in (*pairs[:2], *refs.values())))
    rtol, eps = (1e-5, 1e-7) if single else (1e-9, 1e-15)
    atol = (1 + beta) * 10 * eps * largest
    for kind in KINDS:
        got = submission.pairwise_loss(kind, *pairs, **refs, beta=beta, gamma=gamma, alpha=alpha)
        expected = oracle(kind, *doubled(pairs), *doubled(refs.values()), beta, gamma, alpha)
        close(got, expected, rtol=rtol, atol=atol, dtype=dtype, by="element", what=kind)


@points(3)
@given(
    batch=integers(1, 9),
    beta=sampled_from((0.1, 0.5, 2.0)),
    gamma=sampled_from((0.5, 1.6)),
    alpha=sampled_from((1.0, 0.3)),
    tied=booleans(),
    seed=integers(0, 2**32 - 1),
    examples=20,
)
def test_gradients(submission, batch, beta, gamma, alpha, tied, seed):
    """Autograd through each loss equals that of the formula in float64, also at a tie; none for the references."""
    pairs, refs = draw_pairs(seed, batch)
    if tied:  # where a policy starts, and where |x| has no slope
        chosen, _, length, _ = pairs
        pairs, refs = (chosen, chosen.clone(), length, length), {name: chosen.clone() for name in refs}
        gamma = 0.0
    for x in (*pairs[:2], *refs.values()):
        x.requires_grad_()
    for kind in KINDS:
        expected = pair_gradients(oracle(kind, *pairs, *refs.values(), beta, gamma, alpha), pairs, refs)
        losses = submission.pairwise_loss(kind, *pairs, **refs, beta=beta, gamma=gamma, alpha=alpha)
        equal(tuple(losses.shape), (batch,), f"shape of the losses, {kind}")
        chosen, rejected, *of_references = pair_gradients(losses, pairs, refs)
        for name, got, want in (("chosen_sum", chosen, expected[0]), ("rejected_sum", rejected, expected[1])):
            require(got is not None, f"{kind}: no gradient reaches {name}")
            close(got, want, rtol=1e-7, atol=1e-12, by="tensor", what=f"{kind}, gradient at {name}")
        for name, got in zip(refs, of_references, strict=True):
            no_gradient(got, f"{name} ({kind})")


@points(2)
def test_ipo_target(submission):
    """The ipo loss is 0 at d = 1 / (2 beta) and grows on both sides: a margin beyond the target is punished."""
    n_c, n_r = torch.tensor([5, 1, 129]), torch.tensor([8, 3, 40])
    for beta in (0.1, 0.5, 2.0):
        refs = {"ref_chosen_sum": -3.0 * n_c.double(), "ref_rejected_sum": -2.0 * n_r.double()}
        s_r = refs["ref_rejected_sum"] - 0.5 * n_r
        for off in (0.0, 0.25, -0.25, 1.0, -1.0):
            s_c = refs["ref_chosen_sum"] + n_c * (1 / (2 * beta) - 0.5 + off)
            got = submission.pairwise_loss("ipo", s_c, s_r, n_c, n_r, **refs, beta=beta)
            close(got, [off**2] * 3, rtol=1e-9, atol=1e-12, what=f"beta {beta}, d = 1 / (2 beta) + {off}")


@points(2)
def test_reference_free_kinds(submission):
    """simpo, cpo and orpo give the same value with no references, with any, and with one alone."""
    pairs, refs = draw_pairs(5, 7)
    nothing = torch.full((7,), math.nan, dtype=torch.float64)
    for kind in ("simpo", "cpo", "orpo"):
        expected = oracle(kind, *pairs, *refs.values())
        for chosen in (None, refs["ref_chosen_sum"], nothing):
            for rejected in (None, refs["ref_rejected_sum"], nothing):
                got = submission.pairwise_loss(kind, *pairs, ref_chosen_sum=chosen, ref_rejected_sum=rejected)
                close(got, expected, rtol=1e-9, what=kind)


@points(3)
def test_length_rules(submission):
    """Sums and lengths doubled: simpo, orpo (and ipo, references too) stay, cpo moves; a length of 0 counts as 1."""
    (s_c, s_r, n_c, n_r), refs = draw_pairs(8, 9)
    twice = {name: 2 * ref for name, ref in refs.items()}
    for kind in ("ipo", "simpo", "orpo"):
        got = submission.pairwise_loss(kind, 2 * s_c, 2 * s_r, 2 * n_c, 2 * n_r, **twice)
        close(got, oracle(kind, s_c, s_r, n_c, n_r, *refs.values()), rtol=1e-9, what=f"{kind}, doubled")
    for kind in ("cpo", "hinge"):
        got = submission.pairwise_loss(kind, 2 * s_c, 2 * s_r, 2 * n_c, 2 * n_r, **twice)
        close(got, oracle(kind, 2 * s_c, 2 * s_r, n_c, n_r, *twice.values()) + (kind == "cpo") * s_c / n_c, rtol=1e-9)
    close(
        submission.pairwise_loss("hinge", s_c, s_r, n_r + 3, n_c, **refs),
        oracle("hinge", s_c, s_r, n_c, n_r, *refs.values()),
        rtol=1e-9,
        what="hinge with other lengths",
    )
    none, one = torch.zeros(9, dtype=torch.int64), torch.ones(9, dtype=torch.int64)
    for kind in KINDS:
        for lengths in ((none, n_r), (n_c, none), (none, none)):
            clamped = [torch.maximum(n, one) for n in lengths]
            got = submission.pairwise_loss(kind, s_c, s_r, *lengths, **refs)
            close(
                got, oracle(kind, s_c, s_r, *clamped, *refs.values()), rtol=1e-9, atol=1e-13, what=f"{kind}, length 0"
            )


@points(3)
def test_orpo_stability(submission):
    """Mean log-probs of -1e-8 and -200 in float32: right and finite, and so are the gradients; 0 counts as -1e-10."""
    lengths = torch.ones(1, dtype=torch.int64)
    for a_c, a_r in ((-1e-8, -1.0), (-1.0, -1e-8), (-1e-5, -1e-8), (-200.0, -1.0), (-1.0, -200.0), (-200.0, -1e-8)):
        for dtype in (torch.float32, torch.float64):
            sums = [torch.tensor([a], dtype=dtype, requires_grad=True) for a in (a_c, a_r)]
            losses = submission.pairwise_loss("orpo", *sums, lengths, lengths, beta=0.5)
            a, b = (float(x.detach()) for x in sums)
            expected, slopes = orpo_by_hand(a, b, 0.5)
            close(losses, [expected], rtol=1e-5, atol=1e-7, by="element", what=f"orpo, a_c = {a}, a_r = {b}")
            gradients = torch.autograd.grad(losses.sum(), sums)
            for got, want in zip(gradients, slopes, strict=True):
                close(got, [want], rtol=1e-4, atol=1e-7, by="element", what=f"gradient, a_c = {a}, a_r = {b}")
    # Only the odds have the bound: a_c itself stands in the loss as it is.
    for a_c, a_r in ((0.0, -1.0), (-1.0, 0.0), (0.0, 0.0), (1e-7, -1.0), (-1.0, 1e-7), (0.25, -1.0), (-1.0, 0.25)):
        for length in (lengths, 0 * lengths):
            sums = [torch.tensor([a], requires_grad=True) for a in (a_c, a_r)]
            losses = submission.pairwise_loss("orpo", *sums, length, length)
            x = log_odds(a_c) - log_odds(a_r)
            expected = -a_c - 0.1 * (min(x, 0.0) - math.log1p(math.exp(-abs(x))))
            close(losses, [expected], rtol=1e-5, atol=1e-6, what=f"orpo, a_c = {a_c}, a_r = {a_r}")
            for got in torch.autograd.grad(losses.sum(), sums):
                require(bool(got.isfinite().all()), f"gradient at a_c = {a_c}, a_r = {a_r}", got=got)


@points(1)
def test_extreme_margins(submission):
    """Sums that differ by 1e5, either way, in float32: losses and gradients are finite and right, of all six."""
    for big, small in ((-1e5, -1.0), (-1.0, -1e5)):
        refs = {"ref_chosen_sum": torch.tensor([-2.0]), "ref_rejected_sum": torch.tensor([-3.0])}
        length = torch.tensor([4])
        for kind in KINDS:
            sums = [torch.tensor([s], requires_grad=True) for s in (big, small)]
            losses = submission.pairwise_loss(kind, *sums, length, length, **refs, beta=1.0)
            gradients = torch.autograd.grad(losses.sum(), sums)
            for got in (losses, *gradients):
                require(bool(got.isfinite().all()), f"{kind} with sums {big} and {small}: not finite", got=got)
            if kind == "orpo":
                value, slopes = orpo_by_hand(big / 4, small / 4, 1.0)
                expected, wanted = torch.tensor([value]).double(), [torch.tensor([x / 4]).double() for x in slopes]
            else:
                exact = [x.detach().double().requires_grad_() for x in sums]
                expected = oracle(kind, *exact, length, length, *doubled(refs.values()), beta=1.0)
                wanted = torch.autograd.grad(expected.sum(), exact)
            what = f"{kind} with sums {big} and {small}"
            close(losses, expected.detach(), rtol=1e-5, atol=1e-6, by="element", what=what)
            for got, want in zip(gradients, wanted, strict=True):
                close(got, want, rtol=1e-4, atol=1e-7, by="element", what=f"gradient of {what}")
    policy = torch.tensor([-1e5, -1e5, -1.0, -1.0], requires_grad=True)
    ref, good = torch.tensor([-1.0, -1.0, -1e5, -1e5]), torch.tensor([True, False, True, False])
    losses, _ = submission.kto_loss(policy, ref, good, torch.zeros(4), torch.ones(4), beta=1.0)
    close(losses, [1.0, 0.0, 0.0, 1.0], atol=1e-6, what="kto")
    (got,) = torch.autograd.grad(losses.sum(), policy)
    require(bool(got.isfinite().all()), "kto: a gradient is not finite", got=got)


@points(2)
def test_argument_errors(submission):
    """ipo and hinge without both references, and unknown kinds, raise ValueError."""
    pairs, refs = draw_pairs(3, 2)
    for kind in ("ipo", "hinge"):
        for missing in ({}, {"ref_chosen_sum": refs["ref_chosen_sum"]}, {"ref_rejected_sum": refs["ref_rejected_sum"]}):
            with raises(ValueError):
                submission.pairwise_loss(kind, *pairs, **missing)
    for kind in ("dpo", "kto", "", "IPO", "SimPO", "orpo "):
        with raises(ValueError):
            submission.pairwise_loss(kind, *pairs, **refs)


@points(3)
def test_worked_kto(submission):
    """policy [-10, -12], ref [-11, -11.5], good and bad: z 0.2, losses 0.480011 and 0.482507; weights scale them."""
    policy, ref = torch.tensor([-10.0, -12.0]), torch.tensor([-11.0, -11.5])
    kl_policy, kl_ref = torch.tensor([-20.0, -21.0]), torch.tensor([-20.5, -20.9])
    batch = (policy, ref, torch.tensor([True, False]), kl_policy, kl_ref)
    for weights, expected in (
        ({}, [0.480011, 0.482507]),
        ({"undesirable_weight": 1.5}, [0.480011, 0.723761]),
        ({"desirable_weight": 2.0}, [0.960021, 0.482507]),
    ):
        losses, z = submission.kto_loss(*batch, **weights)
        close(losses, expected, rtol=1e-5, what=f"losses, {weights or 'plain'}")
        close(z, torch.tensor(0.2), rtol=1e-5, what="z")


@points(4)
@given(
    batch=integers(1, 17),
    beta=sampled_from((0.1, 0.5, 0.02)),
    good=sampled_from((1.0, 0.75, 2.0)),
    bad=sampled_from((1.0, 1.5, 0.0)),
    classes=sampled_from(("mixed", "good", "bad")),
    single=booleans(),
    apart=booleans(),
    seed=integers(0, 2**32 - 1),
    examples=50,
)
def test_kto_matches_float64_oracle(submission, batch, beta, good, bad, classes, single, apart, seed):
    """KTO's losses, z and gradients: both classes or one alone, every beta and weight; float32 and float64."""
    dtype = torch.float32 if single else torch.float64
    policy, ref, desirable, kl_policy, kl_ref = draw_answers(seed, batch, dtype, apart)
    if classes != "mixed":
        desirable = torch.full((batch,), classes == "good")
    wide = [x.double().clone() for x in (policy, ref, kl_policy, kl_ref)]
    sums = [x.requires_grad_() for x in (policy, ref, kl_policy, kl_ref)]
    losses, z = submission.kto_loss(
        *sums[:2], desirable, *sums[2:], beta=beta, desirable_weight=good, undesirable_weight=bad
    )
    wide[0].requires_grad_()
    expected, expected_z = kto_oracle(wide[0], wide[1], desirable, wide[2], wide[3], beta, good, bad)
    largest = float(max(x.detach().abs().max() for x in wide))
    rtol, eps = (1e-5, 1e-7) if single else (1e-10, 1e-15)
    close(losses, expected.detach(), rtol=rtol, atol=(10 * beta * largest + 2) * eps, dtype=dtype, what="losses")
    equal(tuple(z.shape), (), "shape of z")
    close(z, torch.tensor(expected_z, dtype=torch.float64), rtol=rtol, atol=10 * eps * largest, dtype=dtype, what="z")
    require(not z.requires_grad, "z requires grad", got=z)
    got, *others = torch.autograd.grad(losses.sum(), sums, allow_unused=True)
    (want,) = torch.autograd.grad(expected.sum(), wide[0])
    require(got is not None, "no gradient reaches policy_sum")
    # The gradient is a product s (1 - s): a saturated float32 sigmoid loses it altogether.
    close(got, want, rtol=100 * rtol, atol=(10 * beta * largest + 4) * eps * beta * 2, what="gradient at policy_sum")
    for name, gradient in zip(("ref_sum", "kl_policy_sum", "kl_ref_sum"), others, strict=True):
        no_gradient(gradient, name)


@points(2)
def test_kto_baseline(submission):
    """z is the mean of the mismatched pairs alone and never below 0; permuting the batch permutes the losses."""
    policy, ref, _, _, kl_ref = draw_answers(11, 12)
    desirable = torch.arange(12) % 3 > 0
    for shift in (-40.0, 40.0):
        # Some differences are on the other side of 0 than their mean.
        batch = (policy, ref, desirable, kl_ref + shift + 3 * shift * torch.arange(-5.5, 6.0) / 12, kl_ref)
        mean = float((batch[3] - kl_ref).mean())
        losses, z = submission.kto_loss(*batch)
        close(z, torch.tensor(max(mean, 0.0), dtype=torch.float64), rtol=1e-6, atol=1e-12, what="z")
        close(losses, kto_oracle(*batch)[0], rtol=1e-9, what="losses")
        order = torch.randperm(12)
        moved, _ = submission.kto_loss(*(x[order] for x in batch))
        close(moved, losses[order].detach(), rtol=1e-12, what="losses of the permuted batch")
        other, _ = submission.kto_loss(policy - 3.0, ref, desirable, *batch[3:])
        close(other, kto_oracle(policy - 3.0, ref, desirable, *batch[3:])[0], rtol=1e-9, what="another policy, same z")


@points(2)
def test_kto_opposite_signs(submission):
    """A step down the gradient makes every desirable answer likelier and every undesirable one less likely."""
    policy, ref, _, kl_policy, kl_ref = draw_answers(12, 9)
    desirable = torch.tensor([True, False, False, True, True, False, True, False, False])
    policy = (ref + (policy - ref).clamp(-20, 20)).requires_grad_()
    losses, _ = submission.kto_loss(policy, ref, desirable, kl_policy, kl_ref)
    (got,) = torch.autograd.grad(losses.sum(), policy)
    require(bool((got[desirable] < 0).all()), "the loss of a desirable answer does not fall with its log-prob", got=got)
    require(bool((got[~desirable] > 0).all()), "the loss of an undesirable answer does not rise with it", got=got)
