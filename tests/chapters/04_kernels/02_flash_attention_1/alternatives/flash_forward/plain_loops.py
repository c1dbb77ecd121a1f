"""Plain two loops, torch.where masks, out-of-place updates."""

from __future__ import annotations

import torch
from torch import Tensor


def _keys_seen(end: int, n: int, m: int, causal: bool) -> int:
    """Keys that the rows before row `end` see between them."""
    return max(0, min(m, end + m - n)) if causal else m


class HBM:
    """Given: the large, slow memory. It counts the elements that pass through it; nothing else reaches q, k, v, o, lse.

    To try your program: hbm = HBM.random(20, 23, 16); flash_forward(hbm, 20, 23, 16, block_q=7, block_k=5); then look
    at hbm.o, hbm.lse, hbm.loaded, hbm.stored. The grader uses an HBM of its own, with the same `load` and `store`.
    """

    def __init__(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        self.inputs = {"q": q, "k": k, "v": v}
        self.o = torch.full_like(q, torch.nan)
        self.lse = torch.full((len(q),), torch.nan)
        self.loaded = self.stored = 0

    @classmethod
    def random(
        cls, n: int, m: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float32, factor: float = 1.0
    ) -> HBM:
        """Normally distributed q (times factor), k and v, the same for the same seed."""
        generator = torch.Generator().manual_seed(seed)
        q, k, v = (torch.randn(rows, d, generator=generator) for rows in (n, m, m))
        return cls((q * factor).to(dtype), k.to(dtype), v.to(dtype))

    def load(self, name: str, start: int, stop: int) -> Tensor:
        """Rows start, ..., stop - 1 of "q" (n, d), "k" (m, d) or "v" (m, d); 0 <= start < stop <= n or m."""
        self.loaded += self.inputs[name][start:stop].numel()
        return self.inputs[name][start:stop].clone()

    def store(self, name: str, start: int, rows: Tensor) -> None:
        """Writes the rows start, start + 1, ... of "o" (n, d) or of "lse" (n,)."""
        target = {"o": self.o, "lse": self.lse}[name]
        target[start : start + len(rows)] = rows
        self.stored += rows.numel()


def flash_forward(
    hbm: HBM,
    n: int,
    m: int,
    d: int,
    *,
    block_q: int,
    block_k: int,
    causal: bool = False,
    scale: float | None = None,
) -> None:
    """Writes o = softmax(scale * q @ k.T) @ v and lse = logsumexp(scale * q @ k.T) of n queries and m keys to hbm.

    hbm.load gives rows of "q", "k" and "v", all float16 or all float32; hbm.store takes "o", in the dtype of q, and
    "lse", always float32. n, m, d >= 1. scale None means d ** -0.5; any other number is used as it is.

    Query tiles start at rows 0, block_q, 2 * block_q, ... (the last may be shorter). For each of them:

    1. load the tile of q, once;
    2. from key 0 on, load the tiles k[j : min(j + block_k, m)] and v[...], each once, and update the running maximum,
       the sum l and the unscaled output acc of every row (online softmax);
    3. divide acc by l, and store the rows of o and of lse, each exactly once.

    Inputs are widened to float32 first, and scores, sums and output stay float32 until o is stored. lse is natural
    (base e).

    causal: query i sees key j where j <= i + m - n (both sequences end at the same token, as in decoding with a cache).
    A key tile that no row of the query tile sees is not loaded. A row that sees no key at all (n > m) gets o = 0 and
    lse = -inf; its query tile is loaded all the same.

    Cost: traffic exactly as flash_elements says. No tensor has more than max(block_q * block_k, block_q * d,
    block_k * d) elements. Two matrix products a visited tile, 4 * block_q * block_k * d FLOPs. Float32 results of shape
    (block_q, d), other than products and in-place updates: two a visited tile (rescale acc, add to it), and six more a
    query tile for what stands outside the inner loop.
    Source: arXiv:2205.14135; the order of the loops and the late division are those of arXiv:2307.08691.
    """
    scale = d**-0.5 if scale is None else scale
    for i in range(0, n, block_q):
        rows = min(block_q, n - i)
        q = hbm.load("q", i, i + rows)
        dtype = q.dtype
        q = q.float() * scale
        m_run = torch.full((rows,), -torch.inf)
        l_run = torch.zeros(rows)
        acc = torch.zeros(rows, d)
        for j in range(0, _keys_seen(i + rows, n, m, causal), block_k):
            stop = min(j + block_k, m)
            k, v = hbm.load("k", j, stop).float(), hbm.load("v", j, stop).float()
            s = q @ k.T
            if causal:
                visible = torch.arange(j, stop)[None, :] <= torch.arange(i, i + rows)[:, None] + (m - n)
                s = torch.where(visible, s, -torch.inf)
            m_new = torch.maximum(m_run, s.max(dim=1).values)
            ref = torch.where(m_new == -torch.inf, 0.0, m_new)
            p = torch.exp(s - ref[:, None])
            alpha = torch.exp(m_run - ref)
            l_run = alpha * l_run + p.sum(dim=1)
            acc = alpha[:, None] * acc + p @ v
            m_run = m_new
        hbm.store("o", i, (acc / torch.where(l_run == 0, 1.0, l_run)[:, None]).to(dtype))
        hbm.store("lse", i, m_run + torch.log(l_run))


def flash_elements(n: int, m: int, d: int, *, block_q: int, block_k: int, causal: bool = False) -> tuple[int, int]:
    """(elements loaded, elements stored) by flash_forward, without running it.

    Loaded are n * d of q and 2 * d for every key row of every visited tile (a tile that any row of the query tile sees
    is loaded whole, clipped at m); stored are n * d of o and n of lse.
    """
    loaded = n * d
    for i in range(0, n, block_q):
        seen = _keys_seen(min(i + block_q, n), n, m, causal)
        loaded += 2 * d * min(m, -(-seen // block_k) * block_k)
    return loaded, n * d + n


def standard_elements(n: int, m: int, d: int) -> tuple[int, int]:
    """(elements loaded, elements stored) by the textbook program in three kernels, each reading and writing in full:

    S = q @ k.T;  P = softmax(S);  o = P @ v        (q, o: (n, d); k, v: (m, d); S, P: (n, m); no mask, no lse).
    """
    loaded = (n * d + m * d) + n * m + (n * m + m * d)
    return loaded, n * m + n * m + n * d


def fa1_blocks(sram: int, d: int) -> tuple[int, int]:
    """(block_q, block_k) of the FlashAttention paper, for an on-chip memory of `sram` elements (not bytes).

    block_k = ceil(sram / (4 * d)), so that tiles of q, k, v and o fit together; block_q = min(block_k, d), so that the
    scores fit too. Exact for integers of any size.
    Source: arXiv:2205.14135, algorithm 1.
    """
    block_k = -(-sram // (4 * d))
    return min(block_k, d), block_k
