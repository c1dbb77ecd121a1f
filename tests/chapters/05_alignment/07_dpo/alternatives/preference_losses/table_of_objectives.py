"""A table of small functions, all in float64, softplus for -logsigmoid; KTO writes each class into its own places."""

import torch
import torch.nn.functional as F


class Pair:
    def __init__(self, s_c, s_r, n_c, n_r, f_c, f_r, beta, gamma, alpha):
        self.s_c, self.s_r = s_c.double(), s_r.double()
        self.n_c, self.n_r = torch.where(n_c < 1, 1, n_c), torch.where(n_r < 1, 1, n_r)
        self.beta, self.gamma, self.alpha = beta, gamma, alpha
        self.refs = None if f_c is None or f_r is None else (f_c.detach().double(), f_r.detach().double())

    def ratios(self):
        if self.refs is None:
            raise ValueError("needs references")
        return self.s_c - self.refs[0], self.s_r - self.refs[1]


def ipo(p):
    c, r = p.ratios()
    off = c / p.n_c - r / p.n_r - 0.5 / p.beta
    return off * off


def hinge(p):
    c, r = p.ratios()
    return torch.clamp_min(1.0 - p.beta * c + p.beta * r, 0.0)


def simpo(p):
    return F.softplus(p.gamma - p.beta * p.s_c / p.n_c + p.beta * p.s_r / p.n_r)


def cpo(p):
    return F.softplus(p.beta * (p.s_r - p.s_c)) - p.alpha * p.s_c / p.n_c


def orpo(p):
    def log1mexp(a):
        a = torch.minimum(a, torch.full_like(a, -1e-10))
        near = a > -0.6931
        # Each branch sees a harmless number where the other one counts.
        low = torch.log1p(-torch.exp(torch.where(near, -1.0, a)))
        return a - torch.where(near, torch.log(-torch.expm1(torch.where(near, a, -0.5))), low)

    a_c, a_r = p.s_c / p.n_c, p.s_r / p.n_r
    return p.beta * F.softplus(log1mexp(a_r) - log1mexp(a_c)) - a_c


KINDS = {f.__name__: f for f in (ipo, hinge, simpo, cpo, orpo)}


def pairwise_loss(
    kind,
    chosen_sum,
    rejected_sum,
    chosen_len,
    rejected_len,
    *,
    ref_chosen_sum=None,
    ref_rejected_sum=None,
    beta=0.1,
    gamma=0.5,
    alpha=1.0,
):
    try:
        objective = KINDS[kind]
    except KeyError:
        raise ValueError(kind) from None
    pair = Pair(
        chosen_sum,
        rejected_sum,
        chosen_len,
        rejected_len,
        ref_chosen_sum,
        ref_rejected_sum,
        beta,
        gamma,
        alpha,
    )
    return objective(pair).to(chosen_sum.dtype)


def kto_loss(
    policy_sum,
    ref_sum,
    desirable,
    kl_policy_sum,
    kl_ref_sum,
    *,
    beta=0.1,
    desirable_weight=1.0,
    undesirable_weight=1.0,
):
    with torch.no_grad():
        z = torch.relu(torch.mean(kl_policy_sum - kl_ref_sum))
        ref = ref_sum + z
    losses = torch.empty_like(policy_sum)
    for wanted, sign, weight in ((True, -1.0, desirable_weight), (False, 1.0, undesirable_weight)):
        index = (desirable == wanted).nonzero().flatten()
        losses[index] = weight * torch.sigmoid(sign * beta * (policy_sum[index] - ref[index]))
    return losses, z
