"""Row softmax, forward and backward, for rows that fit on chip and for rows that do not.

As everywhere in this chapter: any size, masks on every edge, float32 inside, programs independent of each other, and a
wrapper that only allocates, takes views and launches. Every launch must compile for sm_90 (an H100), with at most 128
bytes of spilled registers per thread.
"""

# Not allowed here, in any form: torch.softmax, torch.nn.functional.softmax, Tensor.softmax, torch.exp, torch.logsumexp.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def softmax(x: Tensor) -> Tensor:
    """Softmax of each row.

    x (rows, n), float32, float16 or bfloat16, n from 1 to 262144. The last dimension is contiguous; the stride from row
    to row is arbitrary (x may be a slice of columns) and x is read in place. Returns a new contiguous tensor of x's
    shape and dtype.

        y[i] = exp(x[i] - m) / l      m = max over the row      l = sum over the row of exp(x[i] - m)

    Entries may be -inf and get weight 0; a row of nothing but -inf gives zeros. Logits may be as large as +-1e4.
    Against float64, errors are at most 3e-6 in float32 and 2e-3 in float16, relative to the value or to the rms of its
    row if that is larger.

    Cost: one launch. A row of up to 8192 elements fits on chip: it is read once and written once. A wider row, a
    vocabulary, does not: m and l are found together in one pass (the online normaliser of arXiv:1805.02867) and a
    second pass writes: at most two reads, one write. No block is larger than 32768 elements.
    """
    raise NotImplementedError("4.4/softmax_triton: write softmax")


def softmax_backward(y: Tensor, dy: Tensor) -> Tensor:
    """The gradient that reaches x through y = softmax(x), given dy, the gradient of the loss by y.

    y and dy (rows, n), contiguous, in one dtype (float32, float16 or bfloat16), n from 1 to 262144. Returns dx, a new
    tensor of y's shape and dtype. From dy_i / dx_j = y_i * (1{i = j} - y_j) follows, row by row,

        dx = y * (dy - sum(y * dy))

    with errors of at most 1e-5 in float32 and 2e-3 in float16 (relative, as above; where dy - sum cancels, 1e-6 of the
    largest y * dy is allowed too).

    Cost: one launch. Rows of up to 8192 elements: y and dy are read once, dx is written once. Wider rows: y and dy are
    read at most twice each, dx is written once. No block is larger than 32768 elements.
    """
    raise NotImplementedError("4.4/softmax_triton: write softmax_backward")
