"""As the GPU kernels do it: exp2 with log2(e) folded into the scale, base e restored at the end."""

import torch

LOG2E = 1.4426950408889634


def flash_forward(hbm, n, m, d, *, block_q, block_k, causal=False, scale=None):
    factor = (d**-0.5 if scale is None else scale) * LOG2E
    offset = m - n
    for lo in range(0, n, block_q):
        hi = min(lo + block_q, n)
        q = hbm.load("q", lo, hi)
        rows = hi - lo
        peak, l, acc = torch.full([rows], float("-inf")), torch.zeros(rows), torch.zeros(rows, d)
        end = min(m, max(0, hi + offset)) if causal else m
        wide = q.float()
        j = 0
        while j < end:
            stop = min(j + block_k, m)
            k, v = hbm.load("k", j, stop).float(), hbm.load("v", j, stop).float()
            s = (wide @ k.t()).mul_(factor)
            if causal and stop - 1 > lo + offset:
                s.masked_fill_(torch.ones(rows, stop - j).triu(lo + offset - j + 1).bool(), float("-inf"))
            new = torch.maximum(peak, s.max(1).values)
            base = new.masked_fill(new.isinf(), 0.0)
            p = torch.exp2(s - base[:, None])
            old = torch.exp2(peak - base)
            l = l * old + p.sum(1)
            acc = torch.addmm(acc * old[:, None], p, v)
            peak = new
            j = stop
        hbm.store("lse", lo, peak / LOG2E + l.log())
        hbm.store("o", lo, (acc / l.clamp(min=1e-30)[:, None]).to(q.dtype))


def flash_elements(n, m, d, *, block_q, block_k, causal=False):
    keys = 0
    for lo in range(0, n, block_q):
        seen = m if not causal else max(0, min(lo + block_q, n) + m - n)
        keys += min(m, (seen + block_k - 1) // block_k * block_k)
    return d * (n + 2 * keys), n * (d + 1)


def standard_elements(n, m, d):
    scores = n * m
    return (n + m) * d + scores + scores + m * d, scores + scores + n * d


def fa1_blocks(sram, d):
    block_k, rest = divmod(sram, 4 * d)
    block_k += rest > 0
    return min(block_k, d), block_k
