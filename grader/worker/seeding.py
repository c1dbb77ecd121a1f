"""Starting autograd's backward from several outputs at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class _Seed(torch.autograd.Function):
    """A number that depends on all outputs and sends each its gradient."""

    @staticmethod
    def forward(ctx: Any, gradients: Sequence[torch.Tensor], *outputs: torch.Tensor) -> torch.Tensor:
        ctx.gradients = gradients
        return outputs[0].detach().real.new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: torch.Tensor) -> Any:
        return (None, *ctx.gradients)


def backward(outputs: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]) -> None:
    """torch.autograd.backward(outputs, gradients, retain_graph=True), without what that imports the first time.

    Given gradients, torch loads its symbolic shapes and sympy to compare sizes: 486 modules, a second in each worker.
    """
    with torch.enable_grad():
        total = _Seed.apply(gradients, *outputs)  # type: ignore[no-untyped-call]
    total.backward(retain_graph=True)
