"""The `saved` probe: which memory autograd keeps for the backward pass when a call has returned."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import weakref
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

import torch

from grader.worker.probes import Context, Options
from grader.worker.probes.new_threads import entered_in_new_threads
from grader.worker.probes.pause import paused


class Saved:
    """Counts distinct memory: two views of one tensor count once, what was freed before the call ended not at all.

    Seen are tensors that torch's own operations and `ctx.save_for_backward` keep, and tensors that a custom Function
    leaves on `ctx` (`ctx.x = x`). Not seen: what a closure holds.
    """

    def __init__(self, options: Options, context: Context) -> None:
        self._context = context
        self._kept: list[weakref.ref[_Kept]] = []
        self._found: list[dict[str, Any]] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Saved:
        self._stack.enter_context(entered_in_new_threads(self._hooks))
        self._stack.enter_context(self._hooks())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._stack.close()
        if kind is None:
            # Graphs that are dead but sit in a reference cycle are not kept for backward.
            gc.collect()
            with paused():
                self._found = self._look()
        self._kept.clear()

    def summary(self) -> dict[str, Any]:
        """`tensors`, one for each distinct memory: its kind ("argument", "parameter", "result" or "made"), the
        argument's name, elements, bytes. `elements` and `bytes` are their sums, `extra_*` those without arguments
        and parameters, which are there anyway."""
        own = [entry for entry in self._found if entry["kind"] not in ("argument", "parameter")]
        return {
            "elements": sum(entry["elements"] for entry in self._found),
            "bytes": sum(entry["bytes"] for entry in self._found),
            "extra_elements": sum(entry["elements"] for entry in own),
            "extra_bytes": sum(entry["bytes"] for entry in own),
            "tensors": self._found,
        }

    def _hooks(self) -> contextlib.AbstractContextManager[Any]:
        return torch.autograd.graph.saved_tensors_hooks(self._pack, _unpack)

    def _pack(self, tensor: torch.Tensor) -> _Kept:
        with paused():
            kept = _Kept(tensor)
        self._kept.append(weakref.ref(kept))
        return kept

    def _look(self) -> list[dict[str, Any]]:
        tensors = [kept.tensor for reference in self._kept if (kept := reference()) is not None]
        nodes = _nodes(self._context.result)
        leaves = [node.variable for node in nodes if hasattr(node, "variable")]
        for node in nodes:
            if isinstance(node, torch.autograd.function.BackwardCFunction):
                tensors += _tensors_in(vars(node))
        names: dict[int, tuple[str, str]] = {}
        for result in _tensors_in(self._context.result):
            names[_address(result)] = ("result", "")
        for leaf in leaves:
            names[_address(leaf)] = ("parameter", "")
        for name, value in self._context.arguments.items():
            for tensor in _tensors_in(value):
                kind = "parameter" if isinstance(tensor, torch.nn.Parameter) else "argument"
                names[_address(tensor)] = (kind, name if kind == "argument" else "")
        by_memory: dict[int, list[torch.Tensor]] = {}
        for tensor in tensors:
            by_memory.setdefault(_address(tensor), []).append(tensor)
        found = []
        for address, views in by_memory.items():
            kind, name = names.get(address, ("made", ""))
            size = views[0].element_size()
            # Memory that the call took is kept whole, even for a view of a corner of it; of a caller's tensor, which
            # may itself be a view, only what was saved counts.
            elements = views[0].untyped_storage().nbytes() // size if kind in ("made", "result") else _distinct(views)
            if elements:
                found.append({"kind": kind, "name": name, "elements": elements, "bytes": elements * size})
        return found


class _Kept:
    """One tensor that a node of the graph keeps. Hooks switch torch's check for later changes off: this restores it."""

    __slots__ = ("__weakref__", "tensor", "version")

    def __init__(self, tensor: torch.Tensor) -> None:
        # Detached: a node that keeps its own output would otherwise be in a cycle with it.
        self.tensor = tensor.detach()
        self.version = tensor._version


def _unpack(kept: _Kept) -> torch.Tensor:
    if kept.tensor._version != kept.version:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: a tensor "
            f"of shape {tuple(kept.tensor.shape)} is at version {kept.tensor._version}; expected version {kept.version}"
        )
    return kept.tensor


def _nodes(value: Any) -> list[Any]:
    """The nodes of the autograd graph behind every tensor in `value`."""
    waiting = [tensor.grad_fn for tensor in _tensors_in(value) if tensor.grad_fn is not None]
    seen: dict[int, Any] = {}
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen[id(node)] = node
            waiting += [before for before, _ in node.next_functions if before is not None]
    return list(seen.values())


def _tensors_in(value: Any, depth: int = 4) -> Iterator[torch.Tensor]:
    """Tensors in containers, dataclasses, modules and plain objects, a few levels down."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, torch.nn.Module):
        yield from value.parameters()
        yield from value.buffers()
    elif depth and isinstance(value, Mapping):
        for item in list(value.values()):
            yield from _tensors_in(item, depth - 1)
    elif depth and isinstance(value, (list, tuple, set, frozenset)):
        for item in list(value):
            yield from _tensors_in(item, depth - 1)
    elif depth and dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _tensors_in(getattr(value, field.name, None), depth - 1)


def _address(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return id(tensor)


def _distinct(views: list[torch.Tensor]) -> int:
    """How many elements of one memory these views show, each counted once."""
    first = views[0]
    length = first.untyped_storage().nbytes() // first.element_size()
    shown = torch.zeros(length, dtype=torch.bool)
    for view in views:
        if view.element_size() == first.element_size():
            shown.as_strided(view.shape, view.stride(), view.storage_offset()).fill_(True)
    return int(shown.sum())
