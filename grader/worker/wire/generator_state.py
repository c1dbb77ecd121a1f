"""The state of a numpy bit generator as plain data: it holds integers of 128 bits and arrays, which msgpack lacks."""

from __future__ import annotations

from typing import Any


def plain_state(state: Any, numpy: Any) -> Any:
    """A bit generator's state with big integers as strings and arrays as lists."""
    if isinstance(state, dict):
        return {key: plain_state(value, numpy) for key, value in state.items()}
    if isinstance(state, numpy.ndarray):
        return {"": [int(n) for n in state], "dtype": state.dtype.str}
    if isinstance(state, int) and state.bit_length() > 63:
        return {"int": str(state)}
    return state


def state_from_plain(plain: Any, numpy: Any) -> Any:
    if isinstance(plain, dict):
        if plain.keys() == {"int"}:
            return int(plain["int"])
        if plain.keys() == {"", "dtype"}:
            return numpy.array(plain[""], dtype=plain["dtype"])
        return {key: state_from_plain(value, numpy) for key, value in plain.items()}
    return plain
