"""What the wrapper does besides launching: every torch operation of the call, sorted into harmless and not.

Allocating, viewing and filling what the call itself allocated costs nothing that a kernel exercise is about. Everything
else (a copy, arithmetic) is work that belongs into the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from grader.worker.kernels.contents import Contents
from grader.worker.kernels.memory import MemoryMap, storage_of
from grader.worker.probes.pause import state as pause

EMPTY = frozenset(
    {
        "empty",
        "empty_like",
        "empty_strided",
        "empty_permuted",
        "new_empty",
        "new_empty_strided",
        "_empty_affine_quantized",
    }
)
FILLED = frozenset(
    {
        "zeros",
        "zeros_like",
        "new_zeros",
        "ones",
        "ones_like",
        "new_ones",
        "full",
        "full_like",
        "new_full",
        "scalar_tensor",
    }
)
FILLS = frozenset({"fill_", "zero_"})
MOST_FILLS = 16
"""Fills of one call: each brings in a value from the host, and a loop of them would write a result."""

LIFTS = frozenset({"lift", "lift_fresh"})
"""How torch.tensor and torch.from_numpy bring in values."""

MOST_LIFTED = {True: 256, False: 4096}
"""Values that a call may bring in from Python, floating or not: tables of constants, offsets, addresses, no results."""

FOREIGN = "a tensor over host memory (as torch.frombuffer makes)"


@dataclass(frozen=True)
class HostOp:
    """One torch operation between the launches."""

    name: str
    """As torch dispatches it, such as "aten.clone"; or what else the host did, such as "Tensor.numpy"."""
    numel: int
    """Elements of the memory it allocated (0: it made a view or worked in place)."""
    kind: str
    """"allocation", "view", "fill" (of a tensor made in this call), "compute", or "inside" (the body of a kernel)."""
    line: int
    sources: tuple[str, ...]
    """The named arguments that it read or changed."""


class HostTrace(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records torch operations outside of launches and makes new tensors known to the map."""

    def __init__(
        self, memories: MemoryMap, contents: Contents, state: Callable[[], str], line: Callable[[], int]
    ) -> None:
        """`state` says where we are: "host", "launch" (the interpreter's own work: ignored) or "kernel"."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.memories = memories
        self.contents = contents
        self.state = state
        self.line = line
        self.on_empty: Callable[[torch.Tensor], None] | None = None
        self.ops: list[HostOp] = []
        self._lifted = {True: 0, False: 0}
        self._fills = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Torch would import its compiler at the first operation, 2.5 seconds, to keep it away from this mode.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        state = self.state()
        # The worker's own packing of tensors, in the middle of a call that asks the judge something, is nobody's work.
        if state != "launch" and not pause.depth:
            self._record(func, args, kwargs or {}, out, state)
        return out

    def read_out(self, name: str, tensor: torch.Tensor) -> None:
        """A tensor's values were handed to code outside of torch."""
        state = self.state()
        if state == "launch" or pause.depth:
            return
        memory = self.memories.at(tensor)
        sources = () if memory is None or memory.made_in_call else tuple(sorted({view.name for view in memory.views}))
        self.ops.append(HostOp(name, 0, "inside" if state == "kernel" else "compute", self.line(), sources))

    def foreign(self, tensor: torch.Tensor) -> None:
        """A launch was given, or the wrapper returned, memory that is no argument's and that torch did not make."""
        self.ops.append(HostOp(FOREIGN, tensor.numel(), "compute", self.line(), ()))

    def _record(self, func: Any, args: Any, kwargs: Any, out: Any, state: str) -> None:
        base = func._schema.name.partition("::")[2]
        inputs = list(_tensors([*args, *kwargs.values()]))
        touched = [memory for memory in map(self.memories.at, inputs) if memory is not None]
        # By address, since inputs need not be known to the map (constants of the module, say).
        known = {storage.data_ptr() for storage in map(storage_of, inputs) if storage is not None}
        allocated = 0
        for tensor in _tensors([out]):
            storage = storage_of(tensor)
            if storage is None or storage.data_ptr() in known:
                continue
            allocated += tensor.numel()
            self.memories.add(tensor, made_in_call=True, empty=base in EMPTY)
            if base in EMPTY and self.on_empty is not None:
                self.on_empty(tensor)
        if base in LIFTS:
            for tensor in inputs:
                if self.memories.at(tensor) is None and self.contents.adopt(tensor) is None:
                    allocated += tensor.numel()
                    self.memories.add(tensor, made_in_call=True)
        kind = self._kind(func, base, args, allocated)
        for tensor in _tensors([out]) if allocated else ():
            memory = self.memories.at(tensor)
            if memory is not None:
                self.contents.remember(memory)
        if func._schema.is_mutable:
            for tensor in _written(func, args, kwargs):
                memory = self.memories.add(tensor)
                if memory is not None:
                    memory.empty = False
                    self.contents.remember(memory)
        if state == "kernel":
            kind = "inside"
        sources = tuple(sorted({view.name for memory in touched if not memory.made_in_call for view in memory.views}))
        self.ops.append(HostOp(f"aten.{base}", allocated, kind, self.line(), sources))

    def _kind(self, func: Any, base: str, args: Any, allocated: int) -> str:
        if base in EMPTY or base in FILLED:
            return "allocation"
        if func._schema.is_mutable:
            if base in FILLS and args and isinstance(args[0], torch.Tensor):
                memory = self.memories.at(args[0])
                self._fills += 1
                own = args[0].numel() == 0 or (memory is not None and memory.made_in_call)
                return "fill" if own and self._fills <= MOST_FILLS else "compute"
            return "compute"
        if base in LIFTS and allocated:
            floating = bool(args[0].dtype.is_floating_point or args[0].dtype.is_complex)
            self._lifted[floating] += allocated
            return "allocation" if self._lifted[floating] <= MOST_LIFTED[floating] else "compute"
        returns_alias = any(r.alias_info is not None for r in func._schema.returns) or base in {"_unsafe_view", "lift"}
        return "view" if returns_alias and not allocated else "compute"


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _written(func: Any, args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    """The tensors that an operation changes in place or was given as out."""
    for position, spec in enumerate(func._schema.arguments):
        if spec.alias_info is not None and spec.alias_info.is_write:
            value = args[position] if position < len(args) else kwargs.get(spec.name)
            yield from _tensors([value])
