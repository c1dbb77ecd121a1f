"""The closed format in which values cross between judge and worker: msgpack plus raw array bytes.

Nothing in it can name code: no pickle, no import, no class lookup beyond the dataclasses of the loaded submission.
A packed value is a *tree* (msgpack bytes) and a list of *buffers*: the bytes of tensor storages and arrays. Two tensors
that view one storage share one buffer, so that views, strides and in-place changes survive the trip.

Packing is canonical: packing a value that was unpacked gives the same bytes unless somebody changed the value. That is
how an argument that was modified in place is found.
"""

from grader.worker.wire.format import (
    LARGEST_FRAME,
    OBJECT,
    RECORD,
    Side,
    WireError,
    frame,
    remember_libraries,
    unframe,
)
from grader.worker.wire.packing import Packer
from grader.worker.wire.record import Record
from grader.worker.wire.unpacking import Unpacker

__all__ = [
    "LARGEST_FRAME",
    "OBJECT",
    "RECORD",
    "Packer",
    "Record",
    "Side",
    "Unpacker",
    "WireError",
    "frame",
    "remember_libraries",
    "unframe",
]
