"""A GPU's freedoms, used against the kernel: any order of programs, anything in memory that nobody wrote.

Masked lanes of a load without `other` are undefined on a GPU, and so is the memory behind torch.empty. The interpreter
gives zeros for the one and often zeros for the other, which hides mistakes. Here floats get NaN and infinities (NaN
alone would not show in tl.max, which skips it), integers a large number.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

GARBAGE = 0x5A
"""Every byte of a garbage integer: 0x5A5A5A5A is far outside of any tensor used as an index."""

_POISON = np.array([np.inf, np.nan, -np.inf])

# Types that numpy does not have are held as unsigned integers by the interpreter and filled here with their NaN.
_NAN_BITS: dict[str, int] = {"bf16": 0x7FC0, "fp8e4nv": 0x7F, "fp8e5": 0x7F, "fp8e4b8": 0x80, "fp8e5b16": 0x80}
_NAN_BYTES: dict[torch.dtype, tuple[type[np.generic], int]] = {
    torch.bfloat16: (np.uint16, 0x7FC0),
    torch.float8_e4m3fn: (np.uint8, 0x7F),
    torch.float8_e5m2: (np.uint8, 0x7F),
    torch.float8_e4m3fnuz: (np.uint8, 0x80),
    torch.float8_e5m2fnuz: (np.uint8, 0x80),
}
_FLOATS: dict[torch.dtype, type[np.generic]] = {
    torch.float16: np.float16,
    torch.float32: np.float32,
    torch.float64: np.float64,
    torch.complex64: np.float32,
    torch.complex128: np.float64,
}


def undefined(count: int, dtype: np.dtype[Any], triton_name: str) -> npt.NDArray[Any]:
    """Values for `count` undefined lanes of a Triton type that numpy holds as `dtype`."""
    if dtype.kind == "f":
        return np.resize(_POISON, count).astype(dtype)
    if triton_name in _NAN_BITS:
        return np.full(count, _NAN_BITS[triton_name], dtype=dtype)
    if dtype.kind == "b":
        return np.ones(count, dtype=dtype)
    return np.frombuffer(bytes([GARBAGE]) * (count * dtype.itemsize), dtype=dtype)


def spoil(tensor: torch.Tensor) -> None:
    """Fill the whole storage of a tensor that torch.empty made. Works on bytes, unseen by torch's dispatch."""
    storage = tensor.untyped_storage()
    nbytes = storage.nbytes()
    if not nbytes or tensor.device.type != "cpu":
        return
    memory = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(storage.data_ptr()))
    if tensor.dtype in _FLOATS:
        memory.view(_FLOATS[tensor.dtype])[:] = np.nan
    elif tensor.dtype in _NAN_BYTES:
        kind, bits = _NAN_BYTES[tensor.dtype]
        memory.view(kind)[:] = bits
    else:
        memory[:] = 1 if tensor.dtype is torch.bool else GARBAGE


def order_of_programs(order: str, programs: int, seed: int, launch: int) -> npt.NDArray[np.int64] | None:
    """Which program runs when, as positions in the interpreter's own order; None keeps that order."""
    if order == "forward":
        return None
    if order == "reverse":
        return np.arange(programs - 1, -1, -1)
    if order == "random":
        return np.random.default_rng([seed, launch]).permutation(programs)
    raise ValueError(f"order of programs: {order!r} is none of forward, reverse, random")
