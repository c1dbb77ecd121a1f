"""Where Triton's interpreter is entered: its builder's memory operations, its launches, its grid loop.

Works with Triton 3.6 to 3.9, whose builders differ in the trailing arguments of loads and stores only; those are passed
on untouched. Everything is patched on the classes, because before 3.9 the interpreter makes builders of its own for
descriptor arguments, and restored when the block ends.

Pointers carry the storage they come from (`TensorHandle.memory`), handed on by pointer arithmetic. So a pointer into x
that runs past x is caught also where it lands in another tensor, and is reported as x's. Where the trace is lost (an
integer cast to a pointer, a select between two tensors) the address alone decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from grader.worker.kernels import hostile

if TYPE_CHECKING:
    from grader.worker.kernels.interpret import Recorder

CARRY = {
    "create_addptr": 0,
    "create_splat": 1,
    "create_broadcast": 0,
    "create_expand_dims": 0,
    "create_reshape": 0,
    "create_trans": 0,
    "create_bitcast": 0,
    "create_unsplat": 0,
}
"""Operations whose result points into the same storage as their pointer argument, and that argument's position."""

_MISSING = object()


class _Patches:
    """Attributes to be put back."""

    def __init__(self) -> None:
        self._changes: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        self._changes.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def restore(self) -> None:
        while self._changes:
            owner, name, original = self._changes.pop()
            if original is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


_active: list[Any] = []


@contextmanager
def installed(recorder: Recorder) -> Iterator[None]:
    """Send everything that interpreted kernels do to `recorder`."""
    from triton.language.semantic import TritonSemantic
    from triton.runtime import interpreter

    if _active:
        raise RuntimeError("kernels are being watched already")
    _active.append(recorder)
    patches = _Patches()
    try:
        _watch_launches(patches, interpreter, recorder)
        _carry_origins(patches, interpreter, recorder)
        _watch_memory(patches, interpreter, TritonSemantic, recorder)
        _watch_atomics(patches, interpreter, recorder)
        _watch_blocks_and_dots(patches, interpreter, recorder)
        yield
    finally:
        patches.restore()
        _active.pop()


def _watch_launches(patches: _Patches, interpreter: Any, recorder: Recorder) -> None:
    executor, builder = interpreter.GridExecutor, interpreter.InterpreterBuilder
    run, restore = executor.__call__, executor._restore_args_dev
    set_grid, set_program = builder.set_grid_dim, builder.set_grid_idx

    def asking(grid: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*args: Any, **kwargs: Any) -> Any:
            with recorder.outside_of_launch():
                return grid(*args, **kwargs)

        return ask

    def launch(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.begin_launch(self.fn.__name__, list(_tensors([*args, *kwargs.values()])))
        try:
            if callable(self.grid):
                self.grid = asking(self.grid)
            # A GPU does not warn; the interpreter's numpy would, at every overflow and every NaN.
            with np.errstate(all="ignore"):
                return run(self, *args, **kwargs)
        finally:
            recorder.end_launch()

    def restore_args(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.leave_programs()
        return restore(self, *args, **kwargs)

    def set_grid_dim(self: Any, nx: int, ny: int, nz: int) -> None:
        recorder.set_grid(nx, ny, nz)
        set_grid(self, nx, ny, nz)

    def set_grid_idx(self: Any, x: int, y: int, z: int) -> None:
        set_program(self, *recorder.next_program(x, y, z))

    patches.set(executor, "__call__", launch)
    patches.set(executor, "_restore_args_dev", restore_args)
    patches.set(builder, "set_grid_dim", set_grid_dim)
    patches.set(builder, "set_grid_idx", set_grid_idx)


def _carry_origins(patches: _Patches, interpreter: Any, recorder: Recorder) -> None:
    patches.set(interpreter.TensorHandle, "memory", None)
    convert = interpreter._implicit_cvt

    def implicit_cvt(arg: Any) -> Any:
        value = convert(arg)
        tensor = getattr(arg, "base", None) if not isinstance(arg, torch.Tensor) else arg
        if isinstance(tensor, torch.Tensor):
            handle = getattr(value, "handle", None)
            handle = getattr(handle, "base", handle)  # a descriptor holds its base pointer
            if handle is not None:
                handle.memory = recorder.memories.at(tensor)
        return value

    patches.set(interpreter, "_implicit_cvt", implicit_cvt)

    def carrying(original: Callable[..., Any], position: int) -> Callable[..., Any]:
        def operation(*args: Any, **kwargs: Any) -> Any:
            out = original(*args, **kwargs)
            if len(args) > position:
                memory = getattr(args[position], "memory", None)
                if memory is not None:
                    out.memory = memory
            return out

        return operation

    for name, position in CARRY.items():
        original = vars(interpreter.InterpreterBuilder).get(name)
        if original is not None:
            patches.set(interpreter.InterpreterBuilder, name, carrying(original, position + 1))


def _watch_memory(patches: _Patches, interpreter: Any, semantic: Any, recorder: Recorder) -> None:
    import triton.language as tl

    builder, handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
    masked_load, masked_store, load = builder.create_masked_load, builder.create_masked_store, semantic.load
    state: dict[str, Any] = {"no_other": False, "descriptor": None, "ordered": False}

    def semantic_load(self: Any, ptr: Any, mask: Any, other: Any, *rest: Any, **kwargs: Any) -> Any:
        # Only here a missing `other` differs from a zero: the interpreter turns both into None below.
        state["no_other"] = mask is not None and other is None
        try:
            return load(self, ptr, mask, other, *rest, **kwargs)
        finally:
            state["no_other"] = False

    def origin_of(pointers: Any) -> Any:
        descriptor = state["descriptor"]
        return pointers.memory if descriptor is None else descriptor

    def create_masked_load(self: Any, pointers: Any, mask: Any, other: Any, *rest: Any, **kwargs: Any) -> Any:
        addresses, lanes = pointers.data, _lanes(mask, pointers.data)
        kept = recorder.check(
            "load", addresses, lanes, _itemsize(pointers), origin_of(pointers),
            descriptor=state["descriptor"] is not None, ordered=state["ordered"],
        )  # fmt: skip
        if kept is not None:
            mask = handle(kept, tl.int1)
        out = masked_load(self, pointers, mask, other, *rest, **kwargs)
        spoilt = None if kept is None else lanes & ~kept
        if state["no_other"] and other is None and not lanes.all():
            recorder.undefined_lanes(int(lanes.size - np.count_nonzero(lanes)))
            if recorder.hostile:
                spoilt = ~lanes if spoilt is None else spoilt | ~lanes
        if spoilt is not None:
            if not out.data.flags.writeable:
                out.data = out.data.copy()
            out.data[spoilt] = hostile.undefined(
                int(np.count_nonzero(spoilt)), out.data.dtype, pointers.get_element_ty().name
            )
        return out

    def create_masked_store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **kwargs: Any) -> Any:
        addresses, lanes = pointers.data, _lanes(mask, pointers.data)
        itemsize = _itemsize(pointers)
        kept = recorder.check(
            "store", addresses, lanes, itemsize, origin_of(pointers),
            descriptor=state["descriptor"] is not None, ordered=state["ordered"],
        )  # fmt: skip
        if kept is not None:
            mask = handle(kept, tl.int1)
        if value.data.dtype.itemsize != itemsize:
            # The interpreter stores as many bytes as the value has, whatever the pointer's type.
            value = handle(value.data.astype(interpreter._get_np_dtype(pointers.get_element_ty())), value.dtype)
        return masked_store(self, pointers, value, mask, *rest, **kwargs)

    patches.set(semantic, "load", semantic_load)
    patches.set(builder, "create_masked_load", create_masked_load)
    patches.set(builder, "create_masked_store", create_masked_store)

    def through_descriptor(original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(self: Any, descriptor: Any, *args: Any, **kwargs: Any) -> Any:
            state["descriptor"] = descriptor.base.memory
            try:
                return original(self, descriptor, *args, **kwargs)
            finally:
                state["descriptor"] = None

        return operation

    for name in ("create_descriptor_load", "create_descriptor_store"):
        patches.set(builder, name, through_descriptor(getattr(builder, name)))

    def ordering(original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **kwargs: Any) -> Any:
            state["ordered"] = True
            recorder.synchronise()
            try:
                return original(*args, **kwargs)
            finally:
                state["ordered"] = False

        return operation

    # Triton 3.9 builds atomic loads and stores on plain ones.
    for name in ("create_atomic_load", "create_atomic_store", "create_atomic_poll"):
        original = vars(builder).get(name)
        if original is not None:
            patches.set(builder, name, ordering(original))


def _watch_atomics(patches: _Patches, interpreter: Any, recorder: Recorder) -> None:
    import triton.language as tl
    from triton._C.libtriton import ir

    builder, handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
    rmw, cas = builder.create_atomic_rmw, builder.create_atomic_cas

    def synchronise(semantics: Any) -> None:
        if semantics != ir.MEM_SEMANTIC.RELAXED:
            recorder.synchronise()

    def create_atomic_rmw(self: Any, op: Any, pointers: Any, value: Any, mask: Any, sem: Any, *rest: Any) -> Any:
        lanes = _lanes(mask, pointers.data)
        kept = recorder.check("atomic", pointers.data, lanes, _itemsize(pointers), pointers.memory)
        if kept is not None:
            mask = handle(kept, tl.int1)
        synchronise(sem)
        return rmw(self, op, pointers, value, mask, sem, *rest)

    def create_atomic_cas(self: Any, pointers: Any, compare: Any, value: Any, sem: Any, *rest: Any) -> Any:
        lanes = np.ones(pointers.data.shape, dtype=np.bool_)
        kept = recorder.check("atomic", pointers.data, lanes, _itemsize(pointers), pointers.memory)
        synchronise(sem)
        if kept is None:
            return cas(self, pointers, compare, value, sem, *rest)
        out = np.zeros(pointers.data.shape, dtype=compare.data.dtype)
        if kept.any():
            # There is no mask to switch lanes off, so only the good ones are passed on.
            few = [
                handle(np.ascontiguousarray(np.broadcast_to(h.data, kept.shape)[kept]), h.dtype)
                for h in (pointers, compare, value)
            ]
            out[kept] = cas(self, *few, sem, *rest).data
        return handle(out, compare.dtype.scalar)

    patches.set(builder, "create_atomic_rmw", create_atomic_rmw)
    patches.set(builder, "create_atomic_cas", create_atomic_cas)


def _watch_blocks_and_dots(patches: _Patches, interpreter: Any, recorder: Recorder) -> None:
    builder, handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
    post_init, dot = handle.__post_init__, builder.create_dot

    def made(self: Any) -> None:
        size = self.data.size
        if size > recorder.largest_size:
            recorder.block(self.data.shape, size)
        post_init(self)

    def create_dot(self: Any, a: Any, b: Any, accumulator: Any, *rest: Any, **kwargs: Any) -> Any:
        recorder.dot(a, b, accumulator)
        return dot(self, a, b, accumulator, *rest, **kwargs)

    patches.set(handle, "__post_init__", made)
    patches.set(builder, "create_dot", create_dot)
    dot_scaled = vars(builder).get("create_dot_scaled")
    if dot_scaled is not None:

        def create_dot_scaled(self: Any, *args: Any) -> Any:
            # lhs, its scale, its format, rhs, its scale, its format, ..., accumulator
            out = dot_scaled(self, *args)
            recorder.scaled_dot(args[0], args[3], out)
            return out

        patches.set(builder, "create_dot_scaled", create_dot_scaled)


def _lanes(mask: Any, addresses: Any) -> Any:
    lanes = np.asarray(mask.data, dtype=np.bool_)
    return lanes if lanes.shape == addresses.shape else np.broadcast_to(lanes, addresses.shape)


def _itemsize(pointers: Any) -> int:
    return int(max(8, pointers.get_element_ty().primitive_bitwidth)) // 8


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    """Tensors among a launch's arguments: bare, in tuples, under a descriptor or a reinterpreted type."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple):
            yield from _tensors(value)
        elif isinstance(getattr(value, "base", None), torch.Tensor):
            yield value.base
