"""Hidden tests: the closed form behind DPO. Oracles: scipy in float64, random search, LBFGS, identities."""

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import log_expit, log_softmax, logsumexp

from grader.testing import booleans, close, given, integers, points, raises, require, sampled_from

REF = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
REWARDS = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)


def array(x):
    return x.detach().double().numpy()


def policies(rng, shape, spread=1.0):
    """Log probabilities, float64."""
    return torch.from_numpy(log_softmax(spread * rng.standard_normal(shape), axis=-1))


def strided(x):
    """The same values in memory that is not contiguous."""
    apart = torch.full((*x.shape[:-1], 2 * x.shape[-1] + 1), 7.0, dtype=x.dtype)
    apart[..., 1::2] = x
    return apart[..., 1::2]


def rounding(ref, rewards, beta, dtype):
    """What honest arithmetic in this dtype may lose in log pi*: some roundings of the largest sum ref + r / beta."""
    size = np.abs(np.where(np.isfinite(array(ref)), array(ref), 0.0)) + np.abs(array(rewards)) / beta
    return 32.0 * torch.finfo(dtype).eps * (1.0 + size.max())


def check_optimum(submission, ref, rewards, beta):
    """log pi* and the value against scipy; they come in the arguments' dtype."""
    got = submission.optimal_logprobs(ref, rewards, beta)
    require(isinstance(got, tuple) and len(got) == 2, "not a tuple (log pi*, value)", got=got)
    scores = array(ref) + array(rewards) / beta
    atol = rounding(ref, rewards, beta, ref.dtype)
    log_pi = torch.from_numpy(np.asarray(log_softmax(scores, axis=-1)))
    close(got[0], log_pi, atol=atol, dtype=ref.dtype, what="log pi*")
    value = torch.from_numpy(np.asarray(beta * logsumexp(scores, axis=-1)))
    close(got[1], value, atol=beta * atol, dtype=ref.dtype, what="the optimal value")
    return got


def objective_oracle(logprobs, ref, rewards, beta):
    logprobs, ref, rewards = np.broadcast_arrays(array(logprobs), array(ref), array(rewards))
    total = np.zeros(logprobs.shape[:-1])
    for index in np.ndindex(*logprobs.shape):
        lp = logprobs[index]
        if lp > -np.inf:
            total[index[:-1]] += np.exp(lp) * (rewards[index] - beta * (lp - ref[index]))
    return torch.from_numpy(np.asarray(total))


def population_oracle(logits, ref, rewards, beta):
    """Pair by pair, in float64."""
    s = beta * (log_softmax(array(logits)) - array(ref))
    r, k = array(rewards), len(logits)
    terms = [-np.exp(log_expit(r[i] - r[j])) * log_expit(s[i] - s[j]) for i in range(k) for j in range(k) if i != j]
    return float(np.sum(terms) / (k * (k - 1)))


def population_gradient(logits, ref, rewards, beta):
    """d loss / d logits_i = beta / (K (K - 1)) sum_j of [sigmoid(s_i - s_j) - P(i beats j)], both orders of a pair."""
    s, r, k = beta * (array(logits) - array(ref)), array(rewards), len(logits)
    model = np.exp(log_expit(s[:, None] - s))
    judge = np.exp(log_expit(r[:, None] - r))
    return torch.from_numpy(beta * (model - judge).sum(axis=1) / (k * (k - 1)))


@points(2)
def test_worked_example(submission):
    """Three answers, ref [0.5, 0.3, 0.2], rewards [0, 1, 2]: pi* and its value for beta 1 and 0.5."""
    for beta, pi, value in (
        (1.0, [0.179000, 0.291944, 0.529056], 1.027222),
        (0.5, [0.036667, 0.162559, 0.800774], 1.306369),
    ):
        got = submission.optimal_logprobs(REF, REWARDS, beta)
        require(isinstance(got, tuple) and len(got) == 2, "not a tuple (log pi*, value)", got=got)
        close(got[0].exp(), pi, rtol=1e-5, what="pi*")
        close(got[1], torch.tensor(value, dtype=torch.float64), rtol=1e-6, what="the optimal value")
    close(submission.objective(REF, REF, REWARDS, 0.5), torch.tensor(0.7, dtype=torch.float64), what="objective of ref")
    expected = torch.tensor(0.3465735903, dtype=torch.float64)
    close(submission.population_dpo_loss(REF, REF, REWARDS, 0.5), expected, what="population loss of ref: log(2) / 2")


@points(3)
@given(
    k=integers(1, 17),
    leading=sampled_from(((), (1,), (3,), (2, 3))),
    beta=sampled_from((0.05, 0.5, 1.0, 7.0)),
    size=sampled_from((0.0, 1.0, 30.0)),
    shift=sampled_from((0.0, -100.0)),
    double=booleans(),
    impossible=booleans(),
    contiguous=booleans(),
    seed=integers(0, 2**32 - 1),
    examples=40,
)
def test_matches_float64_oracle(submission, k, leading, beta, size, shift, double, impossible, contiguous, seed):
    """log pi*, the value and the objective of any policy: batches, both dtypes, answers that ref never gives."""
    rng = np.random.default_rng(seed)
    dtype = torch.float64 if double else torch.float32
    ref, logprobs = policies(rng, (*leading, k), 2.0), policies(rng, (*leading, k))
    rewards = torch.from_numpy(np.asarray(size * rng.standard_normal((*leading, k)) + shift))
    if impossible:
        never = torch.from_numpy(rng.random((*leading, k)) < 0.4)
        never[..., rng.integers(k)] = False
        ref, logprobs = (x.masked_fill(never, -torch.inf).log_softmax(-1) for x in (ref, logprobs))
    ref, logprobs, rewards = (x.to(dtype) for x in (ref, logprobs, rewards))
    if not contiguous:
        ref, logprobs, rewards = strided(ref), strided(logprobs), strided(rewards)
    check_optimum(submission, ref, rewards, beta)
    got = submission.objective(logprobs, ref, rewards, beta)
    atol = beta * rounding(ref, rewards, beta, dtype)
    close(got, objective_oracle(logprobs, ref, rewards, beta), atol=atol, dtype=dtype, what="objective")


@points(3)
def test_is_the_maximum(submission, rng):
    """objective(pi*) is the value; no random policy and no perturbation of pi* does better."""
    for k, beta in ((3, 1.0), (7, 0.3), (16, 4.0), (1, 0.5)):
        ref, rewards = policies(rng, k), torch.from_numpy(2.0 * rng.standard_normal(k))
        log_pi, value = submission.optimal_logprobs(ref, rewards, beta)
        log_pi, value = log_pi.detach(), value.detach()
        best = submission.objective(log_pi, ref, rewards, beta)
        close(best, value, rtol=1e-10, atol=1e-10, what="the objective of your pi*, against your value")
        others = torch.cat([policies(rng, (300, k), 2.0), policies(rng, (100, k), 8.0)])
        near = (
            log_pi + torch.from_numpy(rng.choice([1e-3, 0.1], (200, 1)) * rng.standard_normal((200, k)))
        ).log_softmax(-1)
        others = torch.cat([others, near, ref[None]])
        got = submission.objective(others, ref.expand_as(others), rewards.expand_as(others), beta)
        worst = float(got.max() - value)
        require(worst <= 1e-10, "some policy beats pi*", got=float(got.max()), expected=f"at most {float(value)}")
        # What a policy lacks to the maximum is exactly beta KL(pi || pi*).
        gap = beta * (others.exp() * (others - log_pi)).sum(-1)
        close(got, value - gap, rtol=1e-9, atol=1e-9, what="the objective, against value - beta KL(pi || pi*)")


@points(2)
def test_implicit_reward_inverts(submission, rng):
    """implicit_rewards(pi*) is r minus its mean; of any policy it is beta (log pi - log ref), centred."""
    for leading, k, beta in (((), 3, 0.1), ((2, 3), 5, 1.0), ((4,), 1, 2.0), ((1,), 17, 30.0)):
        ref, rewards = policies(rng, (*leading, k)), torch.from_numpy(rng.standard_normal((*leading, k)) + 5.0)
        log_pi = torch.from_numpy(np.asarray(log_softmax(array(ref) + array(rewards) / beta, axis=-1)))
        centred = rewards - rewards.mean(-1, keepdim=True)
        close(submission.implicit_rewards(log_pi, ref, beta), centred, rtol=1e-10, atol=1e-12 * (1 + beta))
        own = submission.optimal_logprobs(ref, rewards, beta)[0].detach()
        close(submission.implicit_rewards(own, ref, beta), centred, rtol=1e-10, atol=1e-12 * (1 + beta))
        for dtype in (torch.float32, torch.float64):
            logprobs, base = policies(rng, (*leading, k), 3.0).to(dtype), strided(ref.to(dtype))
            expected = beta * (logprobs.double() - base.double())
            expected = expected - expected.mean(-1, keepdim=True)
            got = submission.implicit_rewards(logprobs, base, beta)
            atol = beta * rounding(ref, torch.zeros_like(ref), beta, dtype)
            close(got, expected, atol=atol, dtype=dtype, what="rewards of a random policy")


@points(3)
@given(
    k=integers(2, 17),
    beta=sampled_from((0.1, 1.0, 5.0)),
    size=sampled_from((0.0, 1.0, 20.0)),
    spread=sampled_from((1.0, 30.0)),
    double=booleans(),
    seed=integers(0, 2**32 - 1),
    examples=25,
)
def test_population_loss_matches_pairs(submission, k, beta, size, spread, double, seed):
    """The loss and its gradient against a sum over all ordered pairs; unnormalised logits, also in float32."""
    rng = np.random.default_rng(seed)
    dtype = torch.float64 if double else torch.float32
    logits = torch.from_numpy(spread * rng.standard_normal(k) + 3.0).to(dtype).requires_grad_()
    ref, rewards = policies(rng, k, 2.0).to(dtype), torch.from_numpy(size * rng.standard_normal(k)).to(dtype)
    loss = submission.population_dpo_loss(logits, ref, rewards, beta)
    # torch's softplus, which is a fair way to a logsigmoid, drops what is below exp(-20) = 2e-9.
    eps = 1e-8 + 64 * torch.finfo(dtype).eps * (1.0 + beta * (spread + 6.0) + size)
    expected = torch.tensor(population_oracle(logits, ref, rewards, beta), dtype=torch.float64)
    close(loss, expected, rtol=eps, atol=eps, dtype=dtype, what="loss")
    (gradient,) = torch.autograd.grad(loss, logits)
    close(gradient, population_gradient(logits, ref, rewards, beta), rtol=eps, atol=beta * eps, what="gradient")


@points(3)
def test_population_minimiser(submission, rng):
    """At log pi* the gradient of the population loss is 0, and LBFGS from ref arrives there."""
    for k, beta, size in ((3, 0.5, 1.0), (6, 2.0, 1.5), (4, 0.1, 0.7), (2, 1.0, 1.0)):
        ref, rewards = policies(rng, k), torch.from_numpy(size * rng.standard_normal(k))
        log_pi = torch.from_numpy(log_softmax(array(ref) + array(rewards) / beta)).requires_grad_()
        loss = submission.population_dpo_loss(log_pi, ref, rewards, beta)
        (gradient,) = torch.autograd.grad(loss, log_pi)
        close(gradient, torch.zeros(k, dtype=torch.float64), atol=1e-10, what="the gradient at log pi*")

        def loss_and_gradient(x, ref=ref, rewards=rewards, beta=beta):
            logits = torch.from_numpy(np.array(x)).requires_grad_()
            loss = submission.population_dpo_loss(logits, ref, rewards, beta)
            (gradient,) = torch.autograd.grad(loss, logits)
            return loss.item(), gradient.numpy()

        start = array(ref)
        found = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", options={"ftol": 0.0, "gtol": 1e-11})
        close(
            torch.softmax(torch.from_numpy(found.x), -1), log_pi.detach().exp(), atol=1e-5, what="where LBFGS arrives"
        )


@points(2)
def test_extremes(submission, rng):
    """beta 1e-4 picks the best answer and nothing overflows; beta 1e6 returns ref."""
    for dtype in (torch.float32, torch.float64):
        ref = policies(rng, (4, 6)).to(dtype)
        rewards = torch.tensor([[50.0, -50.0, 0.0, 49.0, 1.0, 2.0]], dtype=dtype).repeat(4, 1)
        rewards[1] = -rewards[1]
        rewards[2] = 0.0
        rewards[3] -= 300.0
        log_pi, _ = check_optimum(submission, ref, rewards, 1e-4)
        best = torch.nn.functional.one_hot(torch.tensor([0, 1, 0, 0]), 6).double()
        best[2] = ref[2].double().exp()
        close(log_pi.exp(), best, rtol=1e-4, atol=1e-6, what="pi* at beta 1e-4")
        log_pi, _ = check_optimum(submission, ref, rewards, 1e6)
        close(log_pi, ref.double(), atol=1e-3, what="log pi* at beta 1e6, against ref")


@points(2)
def test_impossible_answers(submission, rng):
    """-inf in ref stays impossible, however good the answer; what pi never gives counts 0; what only pi gives, -inf."""
    inf = torch.inf
    for dtype in (torch.float32, torch.float64):
        ref = torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]], dtype=dtype).log()
        rewards = torch.tensor([[0.0, 1.0, 1000.0], [5.0, -2.0, 3.0]], dtype=dtype)
        for beta in (1e-4, 0.1, 3.0, 1e6):
            log_pi, _ = check_optimum(submission, ref, rewards, beta)
            require(bool((log_pi[ref == -inf] == -inf).all()), "an impossible answer is possible", got=log_pi)
        pi = torch.tensor([[0.25, 0.75, 0.0], [0.0, 1.0, 0.0]], dtype=dtype).log()
        got = submission.objective(pi, ref, rewards, 2.0)
        expected = 0.75 - 2.0 * (0.25 * np.log(0.5) + 0.75 * np.log(1.5))
        close(got, [expected, -2.0], rtol=1e-5, dtype=dtype, what="objective")
        # Zeros of pi where ref has none, and the other way round.
        full = torch.tensor([0.2, 0.5, 0.3], dtype=dtype).log()
        got = submission.objective(pi[0], full, rewards[0], 1.0)
        close(got, objective_oracle(pi[0], full, rewards[0], 1.0), rtol=1e-5, dtype=dtype)
        got = submission.objective(full, ref[0], rewards[0], 1.0)
        close(got, torch.tensor(-inf, dtype=torch.float64), dtype=dtype, what="objective of a policy with infinite KL")


@points(1)
def test_batches_equal_loops(submission, rng):
    """Batches of shape (2, 3) give what the single prompts give."""
    ref, pi = policies(rng, (2, 3, 4)), policies(rng, (2, 3, 4))
    rewards = torch.from_numpy(rng.standard_normal((2, 3, 4)))
    log_pi, value = submission.optimal_logprobs(ref, rewards, 0.3)
    score = submission.objective(pi, ref, rewards, 0.3)
    implied = submission.implicit_rewards(pi, ref, 0.3)
    require(value.shape == score.shape == (2, 3), "value and objective are not of shape (2, 3)", got=value.shape)
    for i, j in np.ndindex(2, 3):
        one = submission.optimal_logprobs(ref[i, j], rewards[i, j], 0.3)
        close(one[0], log_pi[i, j].detach(), rtol=1e-12, atol=1e-12, what="log pi* of one prompt")
        close(one[1], value[i, j].detach(), rtol=1e-12, atol=1e-12, what="the value of one prompt")
        one = submission.objective(pi[i, j], ref[i, j], rewards[i, j], 0.3)
        close(one, score[i, j].detach(), rtol=1e-12, atol=1e-12, what="the objective of one prompt")
        one = submission.implicit_rewards(pi[i, j], ref[i, j], 0.3)
        close(one, implied[i, j].detach(), rtol=1e-12, atol=1e-12, what="the implicit rewards of one prompt")


@points(1)
def test_reward_shift(submission, rng):
    """r + c leaves pi*, implicit rewards and the population loss unchanged and moves the value by c."""
    ref, rewards = policies(rng, (3, 5)), torch.from_numpy(rng.standard_normal((3, 5)))
    for beta in (0.05, 1.0, 20.0):
        log_pi, value = submission.optimal_logprobs(ref, rewards, beta)
        for c in (1.0, -40.0, 1000.0):
            moved, moved_value = submission.optimal_logprobs(ref, rewards + c, beta)
            close(moved, log_pi.detach(), rtol=1e-9, atol=1e-11, what="log pi* after r + c")
            close(moved_value, value.detach() + c, rtol=1e-9, atol=1e-11, what="the value after r + c")
    loss = submission.population_dpo_loss(log_pi[0].detach(), ref[0], rewards[0], 0.7)
    moved = submission.population_dpo_loss(log_pi[0].detach() + 9.0, ref[0], rewards[0] + 40.0, 0.7)
    close(moved, loss.detach(), rtol=1e-9, what="the population loss after r + c and logits + c")


@points(1)
def test_far_logits(submission):
    """Logits 1e5 apart: the population loss and its gradient are finite, and right."""
    for dtype in (torch.float32, torch.float64):
        logits = torch.tensor([5e4, -5e4, 0.0, 1.0], dtype=dtype, requires_grad=True)
        ref = torch.full((4,), 0.25, dtype=dtype).log()
        rewards = torch.tensor([0.0, 1.0, 2.0, -1.0], dtype=dtype)
        for beta in (0.1, 1.0):
            loss = submission.population_dpo_loss(logits, ref, rewards, beta)
            expected = torch.tensor(population_oracle(logits, ref, rewards, beta), dtype=torch.float64)
            close(loss, expected, rtol=1e-5, dtype=dtype, what="loss")
            (gradient,) = torch.autograd.grad(loss, logits)
            # In float32, 1e5 has no place for the last digits of a difference of 1.
            close(gradient, population_gradient(logits, ref, rewards, beta), rtol=5e-3, what="gradient")


@points(1)
def test_beta_must_be_positive(submission):
    """optimal_logprobs with beta 0 or below: ValueError; tiny and huge ones are fine."""
    for beta in (0.0, 0, -1.0, -1e-9):
        with raises(ValueError):
            submission.optimal_logprobs(REF, REWARDS, beta)
    for beta in (1e-6, 1, 3, 1e5):
        check_optimum(submission, REF, REWARDS, beta)
