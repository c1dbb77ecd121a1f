"""The `torch` probe: every operation that reaches torch's dispatcher, the tensors that it makes, and their FLOPs."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import torch

from grader.worker.probes import Context, Options
from grader.worker.probes.dispatch_mode import DispatchMode
from grader.worker.probes.flops import product_flops
from grader.worker.probes.new_threads import entered_in_new_threads
from grader.worker.probes.pause import state


class Dispatched:
    """Counts operations in the calling thread and in threads that it starts; autograd's backward included.

    A tensor is new if its memory is: views and in-place results are not, results written to `out=` only where that had
    to grow. Everything that an operation returns counts, a workspace or a logsumexp too; what a kernel takes and gives
    back within one operation cannot be seen, nor what leaves for numpy and comes back.
    """

    def __init__(self, options: Options, context: Context) -> None:
        self._list_ops = bool(options.get("ops", True))
        self._lock = threading.Lock()
        self._ops: list[tuple[str, int]] = []
        self._largest = (0, "")
        self._largest_bytes = 0
        self._flops = self._products = 0
        self._live: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._live_bytes = self._peak_bytes = 0
        self._open = False
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Dispatched:
        self._open = True
        self._stack.enter_context(entered_in_new_threads(lambda: _Mode(self)))
        self._stack.enter_context(_Mode(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._stack.close()
        self._open = False

    def summary(self) -> dict[str, Any]:
        """Elements and bytes of the largest new tensor and the name of its operation; FLOPs and number of matrix
        products; the most bytes of new tensors alive at one time; each operation with the elements that it made."""
        found: dict[str, Any] = {
            "largest_elements": self._largest[0],
            "largest_op": self._largest[1],
            "largest_bytes": self._largest_bytes,
            "flops": self._flops,
            "products": self._products,
            "peak_bytes": self._peak_bytes,
        }
        if self._list_ops:
            found["ops"] = [[name, elements] for name, elements in self._ops]
        self._live.clear()
        return found

    def run(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Runs one operation and counts it."""
        if state.depth or not self._open:
            return function(*args, **kwargs)
        # torch.tensor(...) fills memory unseen and then lifts it: its argument is what is new.
        name = _name(function)
        before = {} if name == "aten.lift_fresh" else _sizes(args, kwargs)
        result = function(*args, **kwargs)
        with self._lock:
            self._count(name, function, args, kwargs, result, before)
        return result

    def _count(
        self,
        name: str,
        function: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        result: Any,
        before: dict[int, int],
    ) -> None:
        made = 0
        seen: set[int] = set()
        for tensor in _tensors(result):
            storage = _storage(tensor)
            if storage is None:
                continue
            key, size = storage._cdata, storage.nbytes()
            if key in seen or before.get(key, -1) >= size:
                continue
            seen.add(key)
            elements = tensor.numel()
            made += elements
            if elements > self._largest[0]:
                self._largest = (elements, name)
            self._largest_bytes = max(self._largest_bytes, elements * tensor.element_size())
            self._hold(key, storage, size)
        flops = product_flops(name, function, args, kwargs, result)
        if flops:
            self._flops += flops
            self._products += 1
        if self._list_ops:
            self._ops.append((name, made))

    def _hold(self, key: int, storage: Any, size: int) -> None:
        """Counts memory as taken until its storage dies."""
        known = self._live.get(key)
        if known is not None and known[0]() is storage:
            self._live_bytes -= known[1]
            reference = known[0]
        else:
            reference = weakref.ref(storage, lambda dead: self._let_go(key, dead))
        self._live[key] = (reference, size)
        self._live_bytes += size
        self._peak_bytes = max(self._peak_bytes, self._live_bytes)

    def _let_go(self, key: int, dead: weakref.ref[Any]) -> None:
        known = self._live.get(key)
        if known is not None and known[0] is dead:
            del self._live[key]
            self._live_bytes -= known[1]


class _Mode(DispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, probe: Dispatched) -> None:
        super().__init__()
        self._probe = probe

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self._probe.run(func, args, kwargs or {})


_names: dict[Any, str] = {}


def _name(function: Any) -> str:
    """`aten.mul` for every overload of it."""
    name = _names.get(function)
    if name is None:
        schema = getattr(function, "_schema", None)
        name = str(schema.name).replace("::", ".") if schema is not None else str(function)
        _names[function] = name
    return name


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    found = []
    for item in value:
        if isinstance(item, torch.Tensor):
            found.append(item)
        elif isinstance(item, (list, tuple, dict)):
            found += _tensors(item)
    return found


def _storage(tensor: torch.Tensor) -> Any:
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse tensors and wrappers have none
        return None


def _sizes(args: Sequence[Any], kwargs: dict[str, Any]) -> dict[int, int]:
    """Bytes of the storage of each tensor among the arguments, by the storage's address."""
    sizes: dict[int, int] = {}
    for tensor in _tensors(args) + _tensors(kwargs):
        storage = _storage(tensor)
        if storage is not None:
            sizes[storage._cdata] = storage.nbytes()
    return sizes
