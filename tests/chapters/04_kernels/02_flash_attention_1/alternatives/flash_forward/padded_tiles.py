"""Every key tile is padded to block_k and masked; scores are scaled after the product; one store a row."""

import math

import torch


def last_visible(i_stop, n, m, causal):
    return m - 1 if not causal else i_stop - 1 + m - n


def flash_forward(hbm, n, m, d, *, block_q, block_k, causal=False, scale=None):
    if scale is None:
        scale = 1 / math.sqrt(d)
    for iq in range(math.ceil(n / block_q)):
        first, stop = iq * block_q, min(n, (iq + 1) * block_q)
        q16 = hbm.load("q", first, stop)
        q = q16.to(torch.float32)
        row = torch.arange(first, stop).unsqueeze(1)
        top = torch.full((stop - first, 1), -math.inf)
        total = torch.zeros(stop - first, 1)
        out = torch.zeros(stop - first, d)
        for jk in range(math.ceil(m / block_k)):
            key = jk * block_k
            if key > last_visible(stop, n, m, causal):
                break
            k = torch.zeros(block_k, d)
            v = torch.zeros(block_k, d)
            here = min(m, key + block_k) - key
            k[:here] = hbm.load("k", key, key + here)
            v[:here] = hbm.load("v", key, key + here)
            scores = torch.einsum("qd,kd->qk", q, k) * scale
            column = torch.arange(key, key + block_k).unsqueeze(0)
            keep = column < m
            if causal:
                keep = keep & (column <= row + m - n)
            scores = torch.where(keep, scores, -math.inf)
            new_top = torch.maximum(top, scores.amax(1, keepdim=True))
            alpha = torch.exp(top - new_top).nan_to_num(nan=1.0)
            p = torch.exp(scores - new_top).nan_to_num(nan=0.0)
            total = total * alpha + p.sum(1, keepdim=True)
            out *= alpha
            out += torch.einsum("qk,kd->qd", p, v)
            top = new_top
        result = torch.where(total > 0, out / total, 0.0).to(q16.dtype)
        lse = (top + torch.log(total)).squeeze(1)
        for r in range(stop - first):
            hbm.store("o", first + r, result[r : r + 1])
            hbm.store("lse", first + r, lse[r : r + 1])


def flash_elements(n, m, d, *, block_q, block_k, causal=False):
    loaded = n * d
    for iq in range(math.ceil(n / block_q)):
        visible = last_visible(min(n, (iq + 1) * block_q), n, m, causal) + 1
        for key in range(0, max(visible, 0), block_k):
            loaded += 2 * d * (min(key + block_k, m) - key)
    return loaded, n * d + n


def standard_elements(n, m, d):
    return n * d + 2 * m * d + 2 * n * m, n * d + 2 * n * m


def fa1_blocks(sram, d):
    block_k = (sram + 4 * d - 1) // (4 * d)
    return (block_k if block_k < d else d), block_k
