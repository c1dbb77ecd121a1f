"""FlashAttention's forward pass for one head, with every byte counted."""

from __future__ import annotations

import torch
from torch import Tensor


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


### BEGIN SOLUTION
def _visible(q_stop: int, n: int, m: int, causal: bool) -> int:
    """How many keys the query before q_stop sees: the most that any query of its tile sees."""
    return max(0, q_stop + m - n) if causal else m


### END SOLUTION
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
    ### BEGIN SOLUTION
    scale = d**-0.5 if scale is None else scale
    for i in range(0, n, block_q):
        i_stop = min(i + block_q, n)
        q = hbm.load("q", i, i_stop)
        out_dtype = q.dtype
        q = q.float() * scale
        peak = torch.full((i_stop - i,), -torch.inf)
        l = torch.zeros(i_stop - i)
        acc = torch.zeros(i_stop - i, d)

        for j in range(0, _visible(i_stop, n, m, causal), block_k):
            j_stop = min(j + block_k, m)
            k = hbm.load("k", j, j_stop).float()
            v = hbm.load("v", j, j_stop).float()
            s = q @ k.T
            if causal:
                query, key = torch.arange(i, i_stop)[:, None], torch.arange(j, j_stop)
                s = s.masked_fill(key > query + (m - n), -torch.inf)
            new_peak = torch.maximum(peak, s.amax(dim=1))
            reference = torch.where(new_peak == -torch.inf, 0.0, new_peak)  # a blind row must not compute -inf + inf
            rescale = torch.exp(peak - reference)
            p = torch.exp(s - reference[:, None])
            l = l * rescale + p.sum(dim=1)
            acc = acc * rescale[:, None] + p @ v
            peak = new_peak

        o = acc / torch.where(l > 0, l, 1.0)[:, None]
        hbm.store("o", i, o.to(out_dtype))
        hbm.store("lse", i, peak + torch.log(l))
    ### END SOLUTION


def flash_elements(n: int, m: int, d: int, *, block_q: int, block_k: int, causal: bool = False) -> tuple[int, int]:
    """(elements loaded, elements stored) by flash_forward, without running it.

    Loaded are n * d of q and 2 * d for every key row of every visited tile (a tile that any row of the query tile sees
    is loaded whole, clipped at m); stored are n * d of o and n of lse.
    """
    ### BEGIN SOLUTION
    key_rows = 0
    for i in range(0, n, block_q):
        tiles = -(-_visible(min(i + block_q, n), n, m, causal) // block_k)
        key_rows += min(tiles * block_k, m)
    return n * d + 2 * d * key_rows, n * d + n
    ### END SOLUTION


def standard_elements(n: int, m: int, d: int) -> tuple[int, int]:
    """(elements loaded, elements stored) by the textbook program in three kernels, each reading and writing in full:

    S = q @ k.T;  P = softmax(S);  o = P @ v        (q, o: (n, d); k, v: (m, d); S, P: (n, m); no mask, no lse).
    """
    ### BEGIN SOLUTION
    loaded = (n * d + m * d) + n * m + (n * m + m * d)
    stored = n * m + n * m + n * d
    return loaded, stored
    ### END SOLUTION


def fa1_blocks(sram: int, d: int) -> tuple[int, int]:
    """(block_q, block_k) of the FlashAttention paper, for an on-chip memory of `sram` elements (not bytes).

    block_k = ceil(sram / (4 * d)), so that tiles of q, k, v and o fit together; block_q = min(block_k, d), so that the
    scores fit too. Exact for integers of any size.
    Source: arXiv:2205.14135, algorithm 1.
    """
    ### BEGIN SOLUTION
    block_k = -(-sram // (4 * d))
    return min(block_k, d), block_k
    ### END SOLUTION
