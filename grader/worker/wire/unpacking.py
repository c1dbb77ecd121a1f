"""Bytes into values."""

from __future__ import annotations

import builtins
import ctypes
import decimal
import fractions
import pathlib
from collections import deque, namedtuple
from collections.abc import Callable
from typing import Any

from grader.worker.wire.format import (
    ARRAY,
    BIGINT,
    COMPLEX,
    DECIMAL,
    DEQUE,
    DEVICE,
    DTYPE,
    ELLIPSIS,
    EXCEPTION,
    FOREIGN,
    FRACTION,
    FROZENSET,
    LARGEST_INT,
    NAMEDTUPLE,
    NUMPY_DTYPE,
    NUMPY_RNG,
    OBJECT,
    OBJECT_ARRAY,
    OUTPUT,
    PATH,
    RANGE,
    RECORD,
    SCALAR,
    SET,
    SLICE,
    TENSOR,
    TORCH_RNG,
    TUPLE,
    Side,
    WireError,
    torch_if_imported,
    unpack_plain,
)
from grader.worker.wire.generator_state import state_from_plain


class Unpacker:
    """Unpacks one message. `leaves` lists the tensors that require grad, in the order in which they were packed."""

    def __init__(self, side: Side, buffers: list[bytes], outputs: list[Any] | None = None) -> None:
        self.side = side
        self.buffers = buffers
        self.outputs = outputs or []
        self.leaves: list[Any] = []
        self.owners: dict[int, Any] = {}
        self.spans: dict[int, tuple[int, int]] = {}
        """First and last + 1 address of the memory that a buffer was copied to."""

    def unpack(self, tree: bytes) -> Any:
        """The value."""
        return unpack_plain(
            tree, ext_hook=self._extension, strict_map_key=False, raw=False, unicode_errors="surrogatepass"
        )

    def _extension(self, code: int, data: bytes) -> Any:
        reader = _READERS.get(code)
        if reader is None:
            raise WireError(f"unknown kind of value {code}")
        return reader(self, data)

    def storage(self, index: int, torch: Any) -> Any:
        """The storage that holds buffer `index`."""
        owner = self.owners.get(index)
        if owner is None:
            content = bytearray(self.buffers[index])
            owner = self.owners[index] = torch.frombuffer(content, dtype=torch.uint8).untyped_storage()
            start = owner.data_ptr()
            self.spans[index] = (start, start + len(content))
        return owner

    def tensor(self, data: bytes) -> Any:
        """A tensor from its payload; torch itself refuses sizes that its storage does not hold."""
        torch = _torch()
        name, shape, *rest = unpack_plain(data)
        if shape is None:
            return self.side.foreign("Tensor", f"a {name} tensor, not a dense one on the CPU")
        stride, offset, index, requires_grad, grad = rest
        dtype = getattr(torch, name)
        if not isinstance(dtype, torch.dtype):
            raise WireError(f"unknown dtype {name}")
        if index < 0:
            tensor = torch.empty_strided(shape, stride, dtype=dtype)
        else:
            tensor = torch.empty(0, dtype=dtype).set_(self.storage(index, torch), offset, shape, stride)
        if requires_grad:
            tensor.requires_grad_(True)
            tensor.grad = None if grad is None else self.unpack(grad)
            self.leaves.append(tensor)
        return tensor

    def array(self, data: bytes) -> Any:
        """An array from its payload; numpy itself refuses strides that its buffer does not hold."""
        import numpy

        descr, shape, strides, offset, index, writable = self.unpack(data)
        descr = descr if isinstance(descr, str) else [tuple(field) for field in descr]
        dtype = numpy.dtype(descr)
        if dtype.hasobject:
            raise WireError("an array of objects cannot be sent as bytes")
        if index < 0:
            return numpy.empty(shape, dtype)
        owner = self.owners.get(index)
        if owner is None:
            owner = self.owners[index] = bytearray(self.buffers[index])
            start = ctypes.addressof(ctypes.c_char.from_buffer(owner))
            self.spans[index] = (start, start + len(owner))
        array = numpy.ndarray(tuple(shape), dtype, buffer=owner, offset=offset, strides=tuple(strides))
        array.flags.writeable = writable
        return array

    def object_array(self, data: bytes) -> Any:
        """An array of Python objects."""
        import numpy

        shape, items = self.unpack(data)
        array = numpy.empty(len(items), dtype=object)
        array[:] = items
        return array.reshape(shape)

    def big_int(self, data: bytes) -> Any:
        """An int beyond 64 bits. Python refuses to write those of more than 4300 digits, so they are not let in."""
        if len(data) > LARGEST_INT:
            return self.side.foreign("int", f"of about {4 * len(data):,} bits")
        return int(data, 16)

    def scalar(self, data: bytes) -> Any:
        """A numpy scalar."""
        import numpy

        descr, content = self.unpack(data)
        dtype = numpy.dtype(descr)
        if dtype.hasobject:
            raise WireError("an object scalar cannot be sent as bytes")
        return numpy.frombuffer(content, dtype)[0]

    def numpy_rng(self, data: bytes) -> Any:
        """A numpy Generator in the state that was sent."""
        import numpy

        name, index = self.unpack(data)
        if name not in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"):
            raise WireError(f"unknown bit generator {name}")
        bits = getattr(numpy.random, name)()
        bits.state = state_from_plain(unpack_plain(self.buffers[index]), numpy)
        return numpy.random.Generator(bits)

    def torch_rng(self, data: bytes) -> Any:
        """A torch Generator in the state that was sent."""
        torch = _torch()
        generator = torch.Generator()
        state = self.buffers[self.unpack(data)]
        generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
        return generator

    def dtype(self, data: bytes) -> Any:
        """A torch dtype by name."""
        torch = _torch()
        dtype = getattr(torch, data.decode())
        if not isinstance(dtype, torch.dtype):
            raise WireError("unknown dtype")
        return dtype

    def device(self, data: bytes) -> Any:
        """A torch device."""
        torch = _torch()
        return torch.device(data.decode())

    def numpy_dtype(self, data: bytes) -> Any:
        """A numpy dtype."""
        import numpy

        return numpy.dtype(data.decode())

    def namedtuple(self, data: bytes) -> Any:
        """A namedtuple: of a type made here, so nothing of the sender's class but its name and fields."""
        name, fields, values = self.unpack(data)
        return namedtuple(name, fields)(*values)

    def record(self, data: bytes) -> Any:
        """A dataclass instance."""
        name, names, values = self.unpack(data)
        return self.side.record(name, dict(zip(names, values, strict=True)))

    def exception(self, data: bytes) -> Any:
        """An exception as a value (one that was *returned*): the nearest built-in kind."""
        names, message = self.unpack(data)
        for name in names:
            kind = getattr(builtins, name, None)
            if isinstance(kind, type) and issubclass(kind, BaseException):
                return kind(message)
        return Exception(message)


_READERS: dict[int, Callable[[Unpacker, bytes], Any]] = {
    TUPLE: lambda u, d: tuple(u.unpack(d)),
    SET: lambda u, d: {u.unpack(item) for item in u.unpack(d)},
    FROZENSET: lambda u, d: frozenset(u.unpack(item) for item in u.unpack(d)),
    COMPLEX: lambda u, d: complex(*u.unpack(d)),
    BIGINT: Unpacker.big_int,
    ARRAY: Unpacker.array,
    OBJECT_ARRAY: Unpacker.object_array,
    SCALAR: Unpacker.scalar,
    TENSOR: Unpacker.tensor,
    RECORD: Unpacker.record,
    NAMEDTUPLE: Unpacker.namedtuple,
    OBJECT: lambda u, d: u.side.resolve(u.unpack(d)),
    NUMPY_RNG: Unpacker.numpy_rng,
    TORCH_RNG: Unpacker.torch_rng,
    DTYPE: Unpacker.dtype,
    DEVICE: Unpacker.device,
    NUMPY_DTYPE: Unpacker.numpy_dtype,
    FRACTION: lambda u, d: fractions.Fraction(*u.unpack(d)),
    DECIMAL: lambda u, d: decimal.Decimal(d.decode()),
    PATH: lambda u, d: pathlib.Path(d.decode(errors="surrogateescape")),
    SLICE: lambda u, d: slice(*u.unpack(d)),
    ELLIPSIS: lambda u, d: ...,
    RANGE: lambda u, d: range(*u.unpack(d)),
    DEQUE: lambda u, d: deque(u.unpack(d)),
    FOREIGN: lambda u, d: u.side.foreign(*u.unpack(d)),
    OUTPUT: lambda u, d: u.outputs[unpack_plain(d)],
    EXCEPTION: Unpacker.exception,
}


def _torch() -> Any:
    """torch as it was before the submission came; the judge imports it now if a first tensor arrives."""
    found = torch_if_imported()
    if found is None:
        import torch

        return torch
    return found
