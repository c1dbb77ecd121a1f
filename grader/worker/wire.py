"""The closed format in which values cross between judge and worker: msgpack plus raw array bytes.

Nothing in it can name code: no pickle, no import, no class lookup beyond the dataclasses of the loaded submission.
A packed value is a *tree* (msgpack bytes) and a list of *buffers*: the bytes of tensor storages and arrays. Two tensors
that view one storage share one buffer, so that views, strides and in-place changes survive the trip.

Packing is canonical: packing a value that was unpacked gives the same bytes unless somebody changed the value. That is
how an argument that was modified in place is found.
"""

from __future__ import annotations

import ctypes
import decimal
import fractions
import pathlib
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, Protocol

import msgpack

LARGEST_FRAME = 2 << 30
"""Bytes; a worker that sends more has returned something absurd."""

LARGEST_INT = 3500
"""Hexadecimal digits."""

TUPLE, SET, FROZENSET, COMPLEX, BIGINT, ARRAY, SCALAR, TENSOR, RECORD, NAMEDTUPLE = range(1, 11)
OBJECT, NUMPY_RNG, TORCH_RNG, DTYPE, NUMPY_DTYPE, FRACTION, DECIMAL, PATH, SLICE, ELLIPSIS = range(11, 21)
RANGE, FOREIGN, OUTPUT, DEVICE, EXCEPTION, OBJECT_ARRAY, DEQUE = range(21, 28)

# Bound now: a submission may replace attributes of these modules in the worker.
_packb = msgpack.packb
_unpackb = msgpack.unpackb
_Ext = msgpack.ExtType
_plain: Callable[[Any], bytes] = msgpack.Packer(use_bin_type=True).pack
"""For lists of numbers and texts only: without a callback it cannot be re-entered, and it is twice as fast."""
_string_at = ctypes.string_at


class WireError(Exception):
    """A value that cannot cross, or bytes that are no value."""


class Record:
    """A dataclass instance of the submission, by value: its fields are attributes."""

    __slots__ = ("_fields", "_name", "_owner")

    def __init__(self, name: str, fields: dict[str, Any], owner: Any = None) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_fields", fields)
        object.__setattr__(self, "_owner", owner)

    @property
    def __record_name__(self) -> str:
        """The name of its class."""
        name: str = self._name
        return name

    @property
    def __record_fields__(self) -> dict[str, Any]:
        """Its fields in order."""
        fields: dict[str, Any] = self._fields
        return fields

    def __getattr__(self, name: str) -> Any:
        if name in Record.__slots__ or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        if name in self._fields:
            return self._fields[name]
        if self._owner is None:
            raise AttributeError(name)
        return self._owner.attribute_of(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self._name} is a copy of the submission's object; use replace({name}=...)")

    def replace(self, **changes: Any) -> Record:
        """A copy with some fields changed."""
        unknown = changes.keys() - self.__record_fields__.keys()
        if unknown:
            raise TypeError(f"{self._name} has no field {', '.join(sorted(unknown))}")
        return Record(self._name, {**self._fields, **changes}, self._owner)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record) or self._name != other._name:
            return NotImplemented
        return bool(self.__record_fields__ == other.__record_fields__)

    def __hash__(self) -> int:
        return hash((self._name, tuple(self.__record_fields__.items())))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.__record_fields__.items())
        return f"{self._name}({inside})"


class Side(Protocol):
    """What differs between the two ends: objects that stay at home and are only named on the wire."""

    def export(self, value: Any) -> tuple[int, Any]:
        """(extension code, plain payload) for an object that is not plain data."""
        ...

    def resolve(self, payload: list[Any]) -> Any:
        """The object, or a proxy of it, for the payload of an OBJECT."""
        ...

    def record(self, type_name: str, fields: dict[str, Any]) -> Any:
        """A dataclass instance from its fields."""
        ...

    def foreign(self, type_name: str, why: str) -> Any:
        """What stands for something that is not handed over as a value, such as a subclass of Tensor."""
        ...


_numpy_modules: list[Any] = []
_torch_modules: list[Any] = []


def _numpy() -> Any:
    """numpy, if anybody has imported it: a value cannot be an array otherwise."""
    if not _numpy_modules and "numpy" in sys.modules:
        _numpy_modules.append(sys.modules["numpy"])
    return _numpy_modules[0] if _numpy_modules else None


def _torch() -> Any:
    """torch, if it was imported *completely* (a submission may be forbidden to use it)."""
    if not _torch_modules:
        module = sys.modules.get("torch")
        if module is not None and hasattr(module, "Tensor") and hasattr(module, "Generator"):
            _torch_modules.append(module)
    return _torch_modules[0] if _torch_modules else None


def remember_libraries() -> None:
    """Keep hold of numpy and torch as they are now, before a submission can touch sys.modules."""
    _numpy()
    _torch()


class Packer:
    """Packs one message. With `graph`, tensors that have a grad_fn are listed in `outputs` and sent once, by number."""

    def __init__(self, side: Side, *, graph: bool = False, grads: bool = True) -> None:
        self.side = side
        self.graph = graph
        self.grads = grads
        self.buffers: list[bytes] = []
        self.owners: list[Any] = []
        self.outputs: list[Any] = []
        self.leaves: list[Any] = []
        self._storages: dict[Any, int] = {}

    def pack(self, value: Any) -> bytes:
        """The tree; buffers pile up in self.buffers."""
        try:
            result: bytes = _packb(
                value, default=self._other, strict_types=True, use_bin_type=True, unicode_errors="surrogatepass"
            )
        except (ValueError, RecursionError) as error:
            if isinstance(error, RecursionError) or "recursion" in str(error):
                raise WireError("a value that contains itself, or is nested more than 500 deep") from None
            raise WireError(str(error)) from None
        return result

    def _other(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, BaseException):
            return _exception_payload(self, value)
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return handler(self, value)
        numpy, torch = _numpy(), _torch()
        if torch is not None:
            if kind is torch.Tensor or kind is torch.nn.Parameter:
                return self._tensor(value, torch)
            if kind is torch.Size:
                return _Ext(TUPLE, self.pack([int(n) for n in value]))
            if kind is torch.dtype:
                return _Ext(DTYPE, str(value).removeprefix("torch.").encode())
            if kind is torch.device:
                return _Ext(DEVICE, str(value).encode())
            if kind is torch.Generator:
                return _Ext(TORCH_RNG, self.pack(self._state(value.get_state().numpy().tobytes(), value)))
            if isinstance(value, torch.Tensor):
                return _Ext(FOREIGN, self.pack([kind.__name__, "a subclass of torch.Tensor"]))
        if numpy is not None:
            if kind is numpy.ndarray:
                return self._array(value, numpy)
            if isinstance(value, numpy.generic):
                return _Ext(SCALAR, self.pack([value.dtype.str, value.tobytes()]))
            if isinstance(value, numpy.ndarray):
                return _Ext(FOREIGN, self.pack([kind.__name__, "a subclass of numpy.ndarray"]))
            if isinstance(value, numpy.dtype):
                return _Ext(NUMPY_DTYPE, value.str.encode())
            if kind is numpy.random.Generator:
                state = _packb(_plain_state(value.bit_generator.state, numpy))
                name = type(value.bit_generator).__name__
                return _Ext(NUMPY_RNG, self.pack([name, self._state(state, value)]))
        if isinstance(value, tuple) and hasattr(kind, "_fields") and kind.__bases__ == (tuple,):
            return _Ext(NAMEDTUPLE, self.pack([kind.__name__, list(kind._fields), list(value)]))
        if kind.__module__ == "torch.return_types" and isinstance(value, tuple):
            return _Ext(TUPLE, self.pack(list(value)))
        code, payload = self.side.export(value)
        return _Ext(code, self.pack(payload))

    def _state(self, state: bytes, owner: Any) -> int:
        return self._buffer(("rng", id(owner)), state, owner)

    def _buffer(self, key: Any, content: bytes, owner: Any) -> int:
        index = self._storages.get(key)
        if index is None:
            index = self._storages[key] = len(self.buffers)
            self.buffers.append(content)
            self.owners.append(owner)
        return index

    def _tensor(self, tensor: Any, torch: Any) -> Any:
        if self.graph and tensor.grad_fn is not None:
            for number, known in enumerate(self.outputs):
                if known is tensor:
                    return _Ext(OUTPUT, _packb(number))
            self.outputs.append(tensor)
            return _Ext(OUTPUT, _packb(len(self.outputs) - 1))
        return _Ext(TENSOR, self.tensor_payload(tensor, torch))

    def tensor_payload(self, tensor: Any, torch: Any) -> bytes:
        """[dtype, shape, stride, offset, buffer, requires_grad, grad]"""
        if tensor.layout is not torch.strided:
            return _plain([str(tensor.layout)[6:], None])
        if tensor.device.type == "meta":
            return _plain(["meta", None])
        plain = tensor.detach()
        if tensor.device.type != "cpu":
            plain = plain.cpu()
        if plain.is_conj() or plain.is_neg():
            plain = plain.resolve_conj().resolve_neg()
        if plain.is_quantized:
            return _plain(["quantized", None])
        if tensor.requires_grad:
            self.leaves.append(tensor)
        if plain.numel() == 0:
            index = -1
        else:
            storage = plain.untyped_storage()
            key = storage.data_ptr()
            index = self._storages.get(key, -1)
            if index < 0:
                index = self._buffer(key, _string_at(key, storage.nbytes()), storage)
        wants = tensor.requires_grad
        grad = tensor.grad if wants and self.grads and tensor.is_leaf else None
        payload: bytes = _plain(
            [
                str(tensor.dtype)[6:],
                tuple(plain.shape),
                plain.stride(),
                plain.storage_offset(),
                index,
                wants,
                None if grad is None else self.pack(grad),
            ]
        )
        return payload

    def _array(self, array: Any, numpy: Any) -> Any:
        if array.dtype.hasobject:
            return _Ext(OBJECT_ARRAY, self.pack([list(array.shape), array.ravel().tolist()]))
        descr = numpy.lib.format.dtype_to_descr(array.dtype)
        if array.size == 0:
            return _Ext(ARRAY, self.pack([descr, list(array.shape), [], 0, -1, True]))
        low, high = numpy.lib.array_utils.byte_bounds(array)
        span = numpy.frombuffer((ctypes.c_uint8 * (high - low)).from_address(low), numpy.uint8)
        index = self._buffer(("array", low, high), span.tobytes(), span)
        offset = array.__array_interface__["data"][0] - low
        writable = bool(array.flags.writeable)
        return _Ext(ARRAY, self.pack([descr, list(array.shape), list(array.strides), offset, index, writable]))


def _plain_state(state: Any, numpy: Any) -> Any:
    """A bit generator's state with big integers as strings and arrays as lists."""
    if isinstance(state, dict):
        return {key: _plain_state(value, numpy) for key, value in state.items()}
    if isinstance(state, numpy.ndarray):
        return {"": [int(n) for n in state], "dtype": state.dtype.str}
    if isinstance(state, int) and state.bit_length() > 63:
        return {"int": str(state)}
    return state


def _state_from_plain(plain: Any, numpy: Any) -> Any:
    if isinstance(plain, dict):
        if plain.keys() == {"int"}:
            return int(plain["int"])
        if plain.keys() == {"", "dtype"}:
            return numpy.array(plain[""], dtype=plain["dtype"])
        return {key: _state_from_plain(value, numpy) for key, value in plain.items()}
    return plain


def _exception_payload(packer: Packer, error: BaseException) -> Any:
    names = [kind.__name__ for kind in type(error).__mro__]
    try:
        message = str(error)[:4000]
    except Exception:
        message = ""
    return _Ext(EXCEPTION, packer.pack([names, message]))


_HANDLERS: dict[type, Callable[[Packer, Any], Any]] = {
    tuple: lambda p, v: _Ext(TUPLE, p.pack(list(v))),
    # Sorted by bytes, so that equal sets are packed alike.
    set: lambda p, v: _Ext(SET, p.pack(sorted(p.pack(item) for item in v))),
    frozenset: lambda p, v: _Ext(FROZENSET, p.pack(sorted(p.pack(item) for item in v))),
    complex: lambda p, v: _Ext(COMPLEX, p.pack([v.real, v.imag])),
    int: lambda p, v: _Ext(BIGINT, hex(v).encode()),
    OrderedDict: lambda p, v: dict(v),
    defaultdict: lambda p, v: dict(v),
    Counter: lambda p, v: dict(v),
    deque: lambda p, v: _Ext(DEQUE, p.pack(list(v))),
    fractions.Fraction: lambda p, v: _Ext(FRACTION, p.pack([v.numerator, v.denominator])),
    decimal.Decimal: lambda p, v: _Ext(DECIMAL, str(v).encode()),
    pathlib.PosixPath: lambda p, v: _Ext(PATH, str(v).encode(errors="surrogateescape")),
    pathlib.WindowsPath: lambda p, v: _Ext(PATH, str(v).encode(errors="surrogateescape")),
    slice: lambda p, v: _Ext(SLICE, p.pack([v.start, v.stop, v.step])),
    types.EllipsisType: lambda p, v: _Ext(ELLIPSIS, b""),
    range: lambda p, v: _Ext(RANGE, p.pack([v.start, v.stop, v.step])),
}


class Unpacker:
    """Unpacks one message. `leaves` lists the tensors that require grad, in the order in which they were packed."""

    def __init__(self, side: Side, buffers: list[bytes], outputs: list[Any] | None = None) -> None:
        self.side = side
        self.buffers = buffers
        self.outputs = outputs or []
        self.leaves: list[Any] = []
        self.owners: dict[int, Any] = {}

    def unpack(self, tree: bytes) -> Any:
        """The value."""
        return _unpackb(tree, ext_hook=self._extension, strict_map_key=False, raw=False, unicode_errors="surrogatepass")

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
        return owner

    def tensor(self, data: bytes) -> Any:
        """A tensor from its payload; torch itself refuses sizes that its storage does not hold."""
        import torch

        name, shape, *rest = _unpackb(data)
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
        bits.state = _state_from_plain(_unpackb(self.buffers[index]), numpy)
        return numpy.random.Generator(bits)

    def torch_rng(self, data: bytes) -> Any:
        """A torch Generator in the state that was sent."""
        import torch

        generator = torch.Generator()
        state = self.buffers[self.unpack(data)]
        generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
        return generator

    def dtype(self, data: bytes) -> Any:
        """A torch dtype by name."""
        import torch

        dtype = getattr(torch, data.decode())
        if not isinstance(dtype, torch.dtype):
            raise WireError("unknown dtype")
        return dtype

    def device(self, data: bytes) -> Any:
        """A torch device."""
        import torch

        return torch.device(data.decode())

    def numpy_dtype(self, data: bytes) -> Any:
        """A numpy dtype."""
        import numpy

        return numpy.dtype(data.decode())

    def namedtuple(self, data: bytes) -> Any:
        """A namedtuple: of a type made here, so nothing of the sender's class but its name and fields."""
        from collections import namedtuple

        name, fields, values = self.unpack(data)
        return namedtuple(name, fields)(*values)

    def record(self, data: bytes) -> Any:
        """A dataclass instance."""
        name, names, values = self.unpack(data)
        return self.side.record(name, dict(zip(names, values, strict=True)))

    def exception(self, data: bytes) -> Any:
        """An exception as a value (one that was *returned*): the nearest built-in kind."""
        import builtins

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
    OUTPUT: lambda u, d: u.outputs[_unpackb(d)],
    EXCEPTION: Unpacker.exception,
}


def frame(tree: bytes, buffers: list[bytes]) -> bytes:
    """One message as bytes."""
    result: bytes = _packb([tree, buffers], use_bin_type=True)
    return result


def unframe(content: bytes) -> tuple[bytes, list[bytes]]:
    """Tree and buffers of a message."""
    tree, buffers = _unpackb(content, raw=False)
    return tree, buffers
