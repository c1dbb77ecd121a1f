"""How the addresses of one block lie in memory: runs of neighbours, and 32-byte sectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SECTOR = 32
"""Bytes of a memory sector: what a GPU moves at least, also for one element."""

Addresses = npt.NDArray[np.uint64]
Lanes = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Layout:
    """`run` neighbouring elements along `axis` is the longest run of consecutive addresses among the active lanes."""

    run: int
    axis: int
    sectors: int


def layout(addresses: Addresses, lanes: Lanes | None, itemsize: int) -> Layout:
    """Addresses of a block, its active lanes (None: all), at least one of them; elements of `itemsize` bytes."""
    best, best_axis = 1, addresses.ndim - 1
    for axis in range(addresses.ndim - 1, -1, -1):
        size = addresses.shape[axis]
        if size <= best:
            continue
        before = (slice(None),) * axis + (slice(None, -1),)
        after = (slice(None),) * axis + (slice(1, None),)
        neighbours = (addresses[after] - addresses[before]) == itemsize
        if lanes is not None:
            neighbours &= lanes[after] & lanes[before]
        run = _longest(neighbours, axis)
        if run > best:
            best, best_axis = run, axis
    return Layout(best, best_axis, _sectors(addresses, lanes, best_axis))


def _longest(neighbours: Lanes, axis: int) -> int:
    """One more than the longest row of True along an axis."""
    size = neighbours.shape[axis]
    if neighbours.all():
        return int(size) + 1
    if not neighbours.any():
        return 1
    rows = np.moveaxis(neighbours, axis, -1).reshape(-1, size)
    ended = np.zeros((rows.shape[0], size + 1), dtype=np.bool_)
    ended[:, :size] = rows
    gaps = np.flatnonzero(~ended.reshape(-1))
    return int(np.diff(gaps, prepend=-1).max())


def _sectors(addresses: Addresses, lanes: Lanes | None, axis: int) -> int:
    """Distinct sectors that the active lanes touch."""
    if axis != addresses.ndim - 1:
        addresses = np.moveaxis(addresses, axis, -1)
        lanes = None if lanes is None else np.moveaxis(lanes, axis, -1)
    active = addresses.reshape(-1) if lanes is None else addresses[lanes]
    sector = active >> np.uint64(5)
    if active.size > 1 and not (sector[1:] >= sector[:-1]).all():
        return int(np.unique(sector).size)
    return int(np.count_nonzero(sector[1:] != sector[:-1])) + 1
