"""FLOPs of matrix products, from the shapes of one dispatched operation: 2 m n k for an (m, k) by (k, n) product.

The formulas of the common operations are torch's own (torch.utils.flop_counter, which takes 0.4 s to import), with
those added that it leaves out: products with a vector, and attention on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

Formula = Callable[[Sequence[Any]], int]
"""From the positional arguments of the operation."""


def _product(left: int, right: int) -> Formula:
    """`(..., m, k) @ (..., k, n)` with these positions; vectors are allowed on either side."""

    def formula(args: Sequence[Any]) -> int:
        a, b = args[left].shape, args[right].shape
        return 2 * int(prod(a)) * (int(b[-1]) if len(b) > 1 else 1)

    return formula


def _addbmm(args: Sequence[Any]) -> int:
    return 2 * int(prod(args[1].shape)) * int(args[2].shape[-1])


def _rank_one(args: Sequence[Any]) -> int:
    return 2 * int(args[1].shape[0]) * int(args[2].shape[0])


def _attention(q: Any, k: Any, v: Any) -> int:
    # (..., L, d) by (..., S, d), then (..., L, S) by (..., S, dv); q may have more heads than k and v.
    rows, keys = int(prod(q.shape[:-1])), int(k.shape[-2])
    return 2 * rows * keys * (int(q.shape[-1]) + int(v.shape[-1]))


def _attention_backward(grad: Any, q: Any, k: Any, v: Any) -> int:
    # Five products: the scores again, dP and dV with v's width, dQ and dK with q's.
    rows, keys = int(prod(q.shape[:-1])), int(k.shape[-2])
    return 2 * rows * keys * (3 * int(q.shape[-1]) + 2 * int(v.shape[-1]))


FORMULAS: dict[str, Formula] = {
    "aten.mm": _product(0, 1),
    "aten._int_mm": _product(0, 1),
    "aten.bmm": _product(0, 1),
    "aten.mv": _product(0, 1),
    "aten.dot": _product(0, 1),
    "aten.vdot": _product(0, 1),
    "aten.addmm": _product(1, 2),
    "aten.addmm_": _product(1, 2),
    "aten._addmm_activation": _product(1, 2),
    "aten.addmv": _product(1, 2),
    "aten.addmv_": _product(1, 2),
    "aten.baddbmm": _product(1, 2),
    "aten.baddbmm_": _product(1, 2),
    "aten.addbmm": _addbmm,
    "aten.addbmm_": _addbmm,
    "aten.addr": _rank_one,
    "aten.addr_": _rank_one,
    "aten._scaled_dot_product_flash_attention_for_cpu": lambda args: _attention(args[0], args[1], args[2]),
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": lambda args: _attention_backward(*args[:4]),
}

_TORCH_KNOWS = ("conv", "scaled_dot_product", "_scaled_mm", "_flash_attention", "_efficient_attention")
"""Parts of the names of the rarer operations; only one of these makes us import torch's table."""


def product_flops(name: str, function: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> int:
    """FLOPs of the operation called `name`; 0 if it is no matrix product.

    >>> product_flops("aten.mm", torch.ops.aten.mm.default, (torch.ones(2, 3), torch.ones(3, 4)), {}, torch.ones(2, 4))
    48
    """
    formula = FORMULAS.get(name)
    if formula is not None:
        return formula(args)
    if any(part in name for part in _TORCH_KNOWS):
        from torch.utils.flop_counter import flop_registry

        registered = flop_registry.get(getattr(function, "overloadpacket", function))
        if registered is not None:
            return int(registered(*args, **kwargs, out_val=result))
    return 0
