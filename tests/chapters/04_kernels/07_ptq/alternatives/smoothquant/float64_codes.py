"""Numpy-like: infinity norms, running maxima in place, powers through logarithms, integer codes multiplied in float64."""

import torch


def calibrate(batches):
    best = 0.0
    for batch in batches:
        best = torch.maximum(
            torch.linalg.vector_norm(batch.to(torch.float32), ord=float("inf"), dim=0), torch.as_tensor(best)
        )
    if not torch.is_tensor(best):
        raise ValueError("calibrate needs at least one batch")
    return best


def smooth_scale(act_absmax, weights, alpha=0.5):
    all_rows = torch.cat([w.to(torch.float64) for w in weights], dim=0)
    w_max = torch.maximum(all_rows.max(dim=0).values, -all_rows.min(dim=0).values)
    a_max = act_absmax.to(torch.float64)
    alive = (a_max > 0) & (w_max > 0)
    log_s = alpha * a_max[alive].log() - (1 - alpha) * w_max[alive].log()
    s = torch.ones_like(a_max)
    s[alive] = log_s.exp().clamp_min(1e-5)
    return s.to(torch.float32)


def smooth(norm_weight, norm_bias, weights, s):
    def divided(v):
        return torch.div(v.double(), s.double()).to(v.dtype)

    folded = []
    for w in weights:
        folded.append(torch.einsum("oi,i->oi", w.double(), s.double()).to(w.dtype))
    return divided(norm_weight), divided(norm_bias) if norm_bias is not None else None, folded


def w8a8_linear(x, w):
    def codes(m):
        top = m.abs().max(dim=-1, keepdim=True)[0]
        scale = top / 127.0
        scale[top == 0] = 1.0
        return torch.clamp(torch.round(m / scale), -127, 127), scale

    cx, sx = codes(x)
    cw, sw = codes(w)
    # Integers below 2**53 are exact in float64, and so are their sums.
    total = torch.nn.functional.linear(cx.double(), cw.double())
    return (total * (sx.double() @ sw.double().mT)).float()
