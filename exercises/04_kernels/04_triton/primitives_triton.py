"""Two classics of every GPU course: the tiled transpose and the device-wide prefix sum.

As everywhere in this chapter: any size, masks on every edge, programs independent of each other, and a wrapper that
only allocates, takes views and launches. Every launch must compile for sm_90 (an H100), with at most 128 bytes of
spilled registers per thread. In the interpreter tl.associative_scan is ten times as slow as tl.cumsum.
"""

# Not allowed here, in any form: torch.cumsum, Tensor.cumsum, Tensor.contiguous, torch.cumulative_trapezoid.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def transpose(x: Tensor) -> Tensor:
    """The transpose, written out: x (m, n) -> a new contiguous (n, m) tensor, bit for bit.

    m, n >= 1, any strides (x may itself be transposed, or a slice with a step), any dtype of 1, 2 or 4 bytes.

    A GPU moves memory in runs of neighbouring bytes. A program that reads a row reads neighbours, but writes a column,
    every element into its own 32-byte sector. So move square tiles: read a tile with neighbours along the axis that is
    contiguous in x, turn it on chip, and write it with neighbours along the rows of the result.

    Cost: one launch; x is read once and the result written once. Where x has an axis of stride 1 and m and n are
    multiples of 128, the addresses of every load and of every store hold runs of at least 32 consecutive elements along
    one axis of the block. No block is larger than 16384 elements.
    """
    raise NotImplementedError("4.4/primitives_triton: write transpose")


def cumsum(x: Tensor, *, exclusive: bool = False, block: int = 1024) -> Tensor:
    """Prefix sums over all programs: y[i] = x[0] + ... + x[i].

    x (n,) contiguous, float16, float32 or int32. Returns (n,) float32, or int32 for int32. Sums are kept in the dtype
    of the result from the start: float16 is widened when it is loaded, int32 is exact. exclusive=True: y[i] is the sum
    of x[:i], so y[0] is 0. block: the elements that one program handles, a power of two >= 64, used as given at every
    level. n = 0 gives an empty tensor.

    Programs cannot wait for each other, so the work is cut at launches (reduce, then scan):

        1. one program per block stores the sum of its block;
        2. the ceil(n / block) block sums are scanned by this very function, however many there are;
        3. one program per block scans its block and adds the sum of all blocks before it.

    Up to one block a single launch does everything. Error in float32: at most 5e-6 times the running sum of |x|.

    Cost: a level of n elements with more than one block takes two launches of ceil(n / block) programs; the last level,
    at most `block` elements, takes one. x is read twice and the result written once, about three moves per element,
    where scanning first and fixing up later takes four: for n >= 5000 and the default block, at most 2.1 times the
    bytes of a float32 x are loaded and at most 1.05 times the bytes of the result stored, levels included.
    """
    raise NotImplementedError("4.4/primitives_triton: write cumsum")
