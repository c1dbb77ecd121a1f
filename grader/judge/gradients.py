"""Autograd across the boundary: one Function joins a call's results to its arguments; its backward asks the worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from grader.judge.session import Session


class _Graph:
    """The worker keeps a call's graph for as long as this object lives."""

    def __init__(self, session: Session, number: int) -> None:
        self.session = session
        self.number = number

    def __del__(self) -> None:
        self.session.forget_graph(self.number)


class _Crossing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, graph: _Graph, raw: list[torch.Tensor], anchor: torch.Tensor, *leaves: torch.Tensor) -> Any:
        ctx.graph = graph
        ctx.set_materialize_grads(False)
        ctx.floating = [tensor.is_floating_point() or tensor.is_complex() for tensor in raw]
        return tuple(raw)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        found = ctx.graph.session.backward(ctx.graph.number, [None if g is None else g.detach() for g in gradients])
        return (None, None, None, *found)


def connect(session: Session, graph: int, raw: list[torch.Tensor], leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    """The results `raw` of a call, as functions of the arguments `leaves` (first derivatives only)."""
    plain = [tensor.detach() for tensor in raw]
    # Parameters live in the worker; the anchor makes results depend on something even if no argument needs a gradient.
    anchor = torch.empty(0, requires_grad=True)
    return list(_Crossing.apply(_Graph(session, graph), plain, anchor, *leaves))  # type: ignore[no-untyped-call]
