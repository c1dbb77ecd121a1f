"""Values into bytes."""

from __future__ import annotations

import ctypes
import decimal
import fractions
import functools
import pathlib
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import msgpack

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
    NAMEDTUPLE,
    NUMPY_DTYPE,
    NUMPY_RNG,
    OBJECT_ARRAY,
    OUTPUT,
    PATH,
    RANGE,
    SCALAR,
    SET,
    SLICE,
    TENSOR,
    TORCH_RNG,
    TUPLE,
    PlainPacker,
    Side,
    WireError,
    numpy_if_imported,
    torch_if_imported,
)
from grader.worker.wire.generator_state import plain_state

_Ext = msgpack.ExtType
_plain: Callable[[Any], bytes] = PlainPacker(use_bin_type=True).pack
"""For short lists of numbers and texts only: without a callback it cannot be re-entered, and it keeps its memory."""
_string_at = ctypes.string_at


class Packer:
    """Packs one message. With `graph`, tensors that have a grad_fn are listed in `outputs` and sent once, by number."""

    def __init__(self, side: Side, *, graph: bool = False, grads: bool = True) -> None:
        self.side = side
        self.graph = graph
        self.grads = grads
        self.buffers: list[bytes] = []
        self.owners: list[Any] = []
        self.spans: list[tuple[int, int]] = []
        """First and last + 1 address of the memory that each buffer was copied from; (0, 0) for what is no memory."""
        self.outputs: list[Any] = []
        self.leaves: list[Any] = []
        self._storages: dict[Any, int] = {}

    def pack(self, value: Any) -> bytes:
        """The tree; buffers pile up in self.buffers."""
        try:
            # A new one each time: packing a container calls this again from inside.
            packer = PlainPacker(
                default=self._other, strict_types=True, use_bin_type=True, unicode_errors="surrogatepass"
            )
            result: bytes = packer.pack(value)
        except (ValueError, RecursionError) as error:
            if isinstance(error, RecursionError) or "recursion" in str(error):
                raise WireError("a value that contains itself, or is nested more than 500 deep") from None
            raise WireError(str(error)) from None
        return result

    def _other(self, value: Any) -> Any:
        """A value that msgpack does not know."""
        handler = _HANDLERS.get(type(value)) or _library_handlers().get(type(value))
        return handler(self, value) if handler is not None else self._rare(value)

    def _rare(self, value: Any) -> Any:
        """A value whose very type is not listed: of a subclass, or of the submission's own."""
        kind = type(value)
        if isinstance(value, BaseException):
            return _Ext(EXCEPTION, self.pack([[base.__name__ for base in kind.__mro__], _message_of(value)]))
        numpy, torch = numpy_if_imported(), torch_if_imported()
        if torch is not None and isinstance(value, torch.Tensor):
            return _Ext(FOREIGN, self.pack([kind.__name__, "a subclass of torch.Tensor"]))
        if numpy is not None:
            if isinstance(value, numpy.generic):
                return _Ext(SCALAR, self.pack([value.dtype.str, value.tobytes()]))
            if isinstance(value, numpy.ndarray):
                return _Ext(FOREIGN, self.pack([kind.__name__, "a subclass of numpy.ndarray"]))
            if isinstance(value, numpy.dtype):
                return _Ext(NUMPY_DTYPE, value.str.encode())
        if isinstance(value, tuple):
            if hasattr(kind, "_fields") and kind.__bases__ == (tuple,):
                return _Ext(NAMEDTUPLE, self.pack([kind.__name__, list(kind._fields), list(value)]))
            if kind.__module__ == "torch.return_types":
                return _Ext(TUPLE, self.pack(list(value)))
        code, payload = self.side.export(value)
        return _Ext(code, self.pack(payload))

    def _buffer(self, key: Any, content: bytes, owner: Any, start: int = 0) -> int:
        index = self._storages.get(key)
        if index is None:
            index = self._storages[key] = len(self.buffers)
            self.buffers.append(content)
            self.owners.append(owner)
            self.spans.append((start, start + len(content)) if start else (0, 0))
        return index

    def generator_state(self, state: bytes, owner: Any) -> int:
        """The number of the buffer that holds a random generator's state."""
        return self._buffer(("rng", id(owner)), state, owner)

    def tensor(self, tensor: Any) -> Any:
        """A torch.Tensor or Parameter."""
        if self.graph and tensor.grad_fn is not None:
            for number, known in enumerate(self.outputs):
                if known is tensor:
                    return _Ext(OUTPUT, _plain(number))
            self.outputs.append(tensor)
            return _Ext(OUTPUT, _plain(len(self.outputs) - 1))
        return _Ext(TENSOR, self.tensor_payload(tensor))

    def tensor_payload(self, tensor: Any) -> bytes:
        """[dtype, shape, stride, offset, buffer, requires_grad, grad]"""
        plain = tensor
        if not tensor.is_cpu or tensor.layout is not _strided() or tensor.is_quantized:
            other = _other_storage(tensor)
            if other:
                return _plain([other, None])
            plain = tensor.detach().cpu()
        if plain.is_conj() or plain.is_neg():
            plain = plain.detach().resolve_conj().resolve_neg()
        shape = tuple(plain.shape)
        index = -1
        if 0 not in shape:
            storage = plain.untyped_storage()
            key = storage.data_ptr()
            index = self._storages.get(key, -1)
            if index < 0:
                index = self._buffer(key, _string_at(key, storage.nbytes()), storage, key)
        wants = tensor.requires_grad
        grad = None
        if wants:
            self.leaves.append(tensor)
            grad = tensor.grad if self.grads and tensor.is_leaf else None
        return _plain(
            [
                _name_of(tensor.dtype),
                shape,
                plain.stride(),
                plain.storage_offset(),
                index,
                wants,
                None if grad is None else self.pack(grad),
            ]
        )

    def array(self, array: Any) -> Any:
        """A numpy.ndarray."""
        numpy = numpy_if_imported()
        if array.dtype.hasobject:
            return _Ext(OBJECT_ARRAY, self.pack([list(array.shape), array.ravel().tolist()]))
        descr = numpy.lib.format.dtype_to_descr(array.dtype)
        if array.size == 0:
            return _Ext(ARRAY, self.pack([descr, list(array.shape), [], 0, -1, True]))
        low, high = numpy.lib.array_utils.byte_bounds(array)
        span = numpy.frombuffer((ctypes.c_uint8 * (high - low)).from_address(low), numpy.uint8)
        index = self._buffer(("array", low, high), span.tobytes(), span, low)
        offset = array.__array_interface__["data"][0] - low
        writable = bool(array.flags.writeable)
        return _Ext(ARRAY, self.pack([descr, list(array.shape), list(array.strides), offset, index, writable]))


@functools.cache
def _strided() -> Any:
    return torch_if_imported().strided


@functools.cache
def _name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _other_storage(tensor: Any) -> str:
    """What a tensor is that has no plain bytes: "sparse_coo", "meta", "quantized"; "" for one on another device."""
    if tensor.layout is not _strided():
        return str(tensor.layout).removeprefix("torch.")
    return "meta" if tensor.is_meta else "quantized" if tensor.is_quantized else ""


def _message_of(error: BaseException) -> str:
    try:
        return str(error)[:4000]
    except Exception:
        return ""


_Handler = Callable[[Packer, Any], Any]

_HANDLERS: dict[type, _Handler] = {
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


def _library_handlers() -> dict[type, _Handler]:
    """Handlers for the types of the libraries that have arrived by now; they join the others for good."""
    found: dict[type, _Handler] = {}
    numpy, torch = numpy_if_imported(), torch_if_imported()
    if numpy is not None and numpy.ndarray not in _HANDLERS:
        found |= {numpy.ndarray: Packer.array, numpy.random.Generator: _numpy_generator}
    if torch is not None and torch.Tensor not in _HANDLERS:
        found |= {
            torch.Tensor: Packer.tensor,
            torch.nn.Parameter: Packer.tensor,
            torch.Size: lambda p, v: _Ext(TUPLE, p.pack([int(n) for n in v])),
            torch.dtype: lambda p, v: _Ext(DTYPE, _name_of(v).encode()),
            torch.device: lambda p, v: _Ext(DEVICE, str(v).encode()),
            torch.Generator: _torch_generator,
        }
    _HANDLERS.update(found)
    return found


def _numpy_generator(packer: Packer, generator: Any) -> Any:
    state = _plain(plain_state(generator.bit_generator.state, numpy_if_imported()))
    name = type(generator.bit_generator).__name__
    return _Ext(NUMPY_RNG, packer.pack([name, packer.generator_state(state, generator)]))


def _torch_generator(packer: Packer, generator: Any) -> Any:
    state = generator.get_state().numpy().tobytes()
    return _Ext(TORCH_RNG, packer.pack(packer.generator_state(state, generator)))
