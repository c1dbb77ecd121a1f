"""A class for the query tile, in-place updates, addmm_, base-2 exponentials, triu mask."""

from __future__ import annotations

import torch
from torch import Tensor
import math
from collections.abc import Iterator


class _Rows:
    """One query tile and its running sums; exponentials are of base 2, everything is updated in place."""

    def __init__(self, q: Tensor, factor: float) -> None:
        self.dtype = q.dtype
        self.q = q.to(torch.float32).mul_(factor * math.log2(math.e))
        self.peak = torch.full((len(q), 1), -torch.inf)
        self.sum = torch.zeros(len(q), 1)
        self.acc = torch.zeros_like(self.q)

    def visit(self, k: Tensor, v: Tensor, diagonal: int | None) -> None:
        s = self.q.matmul(k.float().t())
        if diagonal is not None:
            s.masked_fill_(torch.ones_like(s, dtype=torch.bool).triu_(diagonal + 1), -torch.inf)
        peak = torch.maximum(self.peak, s.amax(1, keepdim=True))
        finite = peak.clamp_min(-3e38)
        s.sub_(finite).exp2_()
        shrink = (self.peak - finite).exp2_()
        self.sum.mul_(shrink).add_(s.sum(1, keepdim=True))
        self.acc.mul_(shrink).addmm_(s, v.float())
        self.peak = peak

    def result(self) -> tuple[Tensor, Tensor]:
        lse = (self.peak + self.sum.log2()).mul_(math.log(2)).squeeze(1)
        self.acc.div_(self.sum.masked_fill(self.sum == 0, 1.0))
        return self.acc.to(self.dtype), lse


def _tiles(lo: int, hi: int, n: int, m: int, block_k: int, causal: bool) -> Iterator[tuple[int, int]]:
    for a in range(0, m, block_k):
        if causal and a > hi - 1 + m - n:
            return
        yield a, min(a + block_k, m)


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
    factor = 1 / math.sqrt(d) if scale is None else scale
    for lo in range(0, n, block_q):
        hi = min(lo + block_q, n)
        tile = _Rows(hbm.load("q", lo, hi), factor)
        for a, b in _tiles(lo, hi, n, m, block_k, causal):
            tile.visit(hbm.load("k", a, b), hbm.load("v", a, b), (lo + m - n - a) if causal else None)
        o, lse = tile.result()
        hbm.store("o", lo, o)
        hbm.store("lse", lo, lse)


def flash_elements(n: int, m: int, d: int, *, block_q: int, block_k: int, causal: bool = False) -> tuple[int, int]:
    """(elements loaded, elements stored) by flash_forward, without running it.

    Loaded are n * d of q and 2 * d for every key row of every visited tile (a tile that any row of the query tile sees
    is loaded whole, clipped at m); stored are n * d of o and n of lse.
    """
    keys = sum(b - a for lo in range(0, n, block_q) for a, b in _tiles(lo, min(lo + block_q, n), n, m, block_k, causal))
    return n * d + 2 * d * keys, n * (d + 1)


def standard_elements(n: int, m: int, d: int) -> tuple[int, int]:
    """(elements loaded, elements stored) by the textbook program in three kernels, each reading and writing in full:

    S = q @ k.T;  P = softmax(S);  o = P @ v        (q, o: (n, d); k, v: (m, d); S, P: (n, m); no mask, no lse).
    """
    return n * d + 2 * m * d + 2 * n * m, 2 * n * m + n * d


def fa1_blocks(sram: int, d: int) -> tuple[int, int]:
    """(block_q, block_k) of the FlashAttention paper, for an on-chip memory of `sram` elements (not bytes).

    block_k = ceil(sram / (4 * d)), so that tiles of q, k, v and o fit together; block_q = min(block_k, d), so that the
    scores fit too. Exact for integers of any size.
    Source: arXiv:2205.14135, algorithm 1.
    """
    k_rows, rest = divmod(sram, 4 * d)
    k_rows += rest > 0
    return min(k_rows, d), k_rows
