"""The pieces of memory that kernels touch, and whose they are.

A kernel sees addresses. A `Memory` is one storage (a run of bytes that one or more tensors view); a `View` is a tensor
that the caller knows by name: an argument of the wrapper or part of its result. What was counted is kept per cell (an
element of the storage), so that it can be told apart by name later, once the result is known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Cells = npt.NDArray[np.int64]

TEMPORARY = "temporary"
"""The name of tensors that are neither an argument nor a result."""


@dataclass(frozen=True)
class View:
    """A named tensor inside a storage. Shape and stride count elements, `offset` bytes from the storage's start."""

    name: str
    itemsize: int
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    def cells(self, grain: int) -> Cells:
        """The cell of every element, in the tensor's own order; cells are `grain` bytes."""
        offsets = np.full((1,) * max(1, len(self.shape)), self.offset, dtype=np.int64)
        for axis, (size, stride) in enumerate(zip(self.shape, self.stride, strict=True)):
            steps = np.arange(size, dtype=np.int64) * (stride * self.itemsize)
            offsets = offsets + steps.reshape([-1 if a == axis else 1 for a in range(len(self.shape))])
        first = offsets.reshape(-1) // grain
        width = self.itemsize // grain
        if width <= 1:
            return first
        return (first[:, None] + np.arange(width)).reshape(-1)

    def index_of(self, cell: int, grain: int) -> tuple[int, ...] | None:
        """The index of the element that holds a cell, or None if no element of this tensor does."""
        positions = np.flatnonzero(self.cells(grain) == cell)
        if not positions.size:
            return None
        element = int(positions[0]) // max(1, self.itemsize // grain)
        return tuple(int(i) for i in np.unravel_index(element, self.shape)) if self.shape else ()

    def says(self, index: tuple[int, ...]) -> str:
        """The element in words, as a learner would write it."""
        return f"`{self.name}[{', '.join(map(str, index))}]`" if index else f"`{self.name}`"


@dataclass(eq=False)
class Memory:
    """One storage, and how often each of its cells was read and written by kernels."""

    base: int
    nbytes: int
    grain: int
    """Bytes of a cell: the smallest element that was read or written here."""
    keep: Any = None
    """Holds the storage, so that its address is not used again while we count."""
    made_in_call: bool = False
    empty: bool = False
    """Made by torch.empty or a relative, and filled by no torch operation since."""
    views: list[View] = field(default_factory=list)
    loads: Cells | None = None
    stores: Cells | None = None
    content: bytes | None = None
    """A digest of what it held when somebody who may had last written to it (see `contents`)."""

    @property
    def end(self) -> int:
        return self.base + self.nbytes

    @property
    def size(self) -> int:
        """Number of cells."""
        return -(-self.nbytes // self.grain)

    def count(self, kind: str, per_cell: Cells) -> None:
        """Add to the loads or stores of each cell."""
        counted = getattr(self, kind)
        setattr(self, kind, per_cell if counted is None else counted + per_cell)

    def refine(self, grain: int) -> None:
        """Use smaller cells from now on: an element of another size shares this storage."""
        ratio = self.grain // grain
        for kind in ("loads", "stores"):
            counted = getattr(self, kind)
            if counted is not None:
                setattr(self, kind, np.repeat(counted, ratio))
        self.grain = grain

    def owners(self) -> npt.NDArray[np.int16] | None:
        """For each cell the position in `views` of its tensor, -1 for none; None if there is only one tensor to name.

        Where named tensors overlap, the one that was named first owns the cell.
        """
        if len(self.views) < 2:
            return None
        owner = np.full(self.size, -1, dtype=np.int16)
        for position in range(len(self.views) - 1, -1, -1):
            owner[self.views[position].cells(self.grain)] = position
        return owner

    def label(self) -> str:
        """One name for the whole storage."""
        return " and ".join(view.name for view in self.views) or TEMPORARY

    def by_name(self, per_cell: Cells) -> dict[str, int]:
        """Sums of something counted per cell, for each named tensor."""
        owner = self.owners()
        if owner is None:
            return {self.label(): int(per_cell.sum())}
        sums = np.bincount(owner + 1, weights=per_cell, minlength=len(self.views) + 1)
        named = {view.name: int(sums[1 + i]) for i, view in enumerate(self.views)}
        # Cells between the named tensors (the v part of a fused qkv when only q and k were passed) belong to neither.
        return named | ({TEMPORARY: int(sums[0])} if sums[0] else {})

    def name_at(self, offset: int) -> str:
        """The name of the tensor at a byte offset."""
        view = self.view_at(offset)
        return view.name if view else TEMPORARY

    def view_at(self, offset: int) -> View | None:
        if len(self.views) < 2:
            return self.views[0] if self.views else None
        cell = offset // self.grain
        return next((view for view in self.views if (view.cells(self.grain) == cell).any()), None)

    def describe(self, cell: int) -> str:
        """A cell in words: an element of a named tensor, if there is one."""
        for view in self.views:
            index = view.index_of(cell, self.grain)
            if index is not None:
                return view.says(index)
        whose = f"the storage of `{self.views[0].name}`" if self.views else "a temporary tensor"
        return f"element {cell} of {whose}"


class MemoryMap:
    """All storages known during one call, by address."""

    def __init__(self) -> None:
        self._by_base: dict[int, Memory] = {}

    def __iter__(self) -> Iterator[Memory]:
        return iter(self._by_base.values())

    def at(self, tensor: torch.Tensor) -> Memory | None:
        """The memory of a tensor if it is known."""
        storage = storage_of(tensor)
        return None if storage is None else self._by_base.get(storage.data_ptr())

    def add(self, tensor: torch.Tensor, *, made_in_call: bool = False, empty: bool = False) -> Memory | None:
        """The memory of a tensor, made known if it was not. None for tensors without memory (size zero)."""
        storage = storage_of(tensor)
        if storage is None:
            return None
        base = storage.data_ptr()
        memory = self._by_base.get(base)
        if memory is None or memory.nbytes < storage.nbytes():
            # A storage that grew in place (resize_) keeps its address and loses what was counted.
            memory = Memory(base, storage.nbytes(), tensor.element_size(), storage, made_in_call, empty)
            self._by_base[base] = memory
        return memory

    def name(self, name: str, tensor: torch.Tensor, *, made_in_call: bool = False) -> None:
        """Give a tensor its name. A storage that already bears a name of an argument keeps it."""
        memory = self.add(tensor, made_in_call=made_in_call)
        storage = storage_of(tensor)
        if memory is None or storage is None:
            return
        itemsize = tensor.element_size()
        if itemsize < memory.grain:
            memory.refine(itemsize)
        memory.views.append(
            View(name, itemsize, tensor.data_ptr() - memory.base, tuple(tensor.shape), tuple(tensor.stride()))
        )

    def find(self, low: int, high: int) -> Memory | None:
        """The storage that holds all bytes from low up to high (exclusive)."""
        for memory in self._by_base.values():
            if memory.base <= low and high <= memory.end:
                return memory
        return None


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """The storage of a plain CPU tensor with at least one byte, else None."""
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        return None
    try:
        storage = tensor.untyped_storage()
        return storage if storage.data_ptr() else None
    except (RuntimeError, NotImplementedError):  # fake and wrapped tensors have no storage to look at
        return None


def named_tensors(name: str, value: object, depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors inside an argument or a result, each with the expression that reaches it."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif depth > 6:
        return
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from named_tensors(f"{name}[{key!r}]", item, depth + 1)
    elif isinstance(value, list | tuple):
        fields = getattr(value, "_fields", None)
        for i, item in enumerate(value):
            yield from named_tensors(f"{name}.{fields[i]}" if fields else f"{name}[{i}]", item, depth + 1)
    elif isinstance(value, torch.nn.Module):
        for key, item in [*value.named_parameters(), *value.named_buffers()]:
            yield f"{name}.{key}", item
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for spec in dataclasses.fields(value):
            yield from named_tensors(f"{name}.{spec.name}", getattr(value, spec.name, None), depth + 1)
