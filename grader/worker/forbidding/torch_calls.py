"""Calls of torch functions.

First line: a function mode sees each call of a torch function from outside torch, with the code that called; what the
function does inside is not seen and not judged. Second line: a dispatch mode knows the kernels of the forbidden
functions, for calls that no function mode sees (TorchScript, code that switched it off). A kernel is only held against
the submission if its own code, and no function of torch's in between, led to it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from grader.worker.forbidding.callers import EXECUTED
from grader.worker.probes.dispatch_mode import DispatchMode

if TYPE_CHECKING:
    from grader.worker.forbid import ForbidGuard

_FAMILIES = {
    "softmax": ("softmin", "_safe_softmax"),
    "matmul": (
        "mm", "bmm", "mv", "addmm", "addmv", "addbmm", "baddbmm", "einsum", "tensordot", "linear", "chain_matmul",
        "multi_dot", "_grouped_mm", "grouped_mm", "_scaled_mm", "_int_mm",
    ),
    "inv": ("inverse", "inv_ex"),
    "inverse": ("inv", "inv_ex"),
    "solve": ("solve_ex",),
    "cat": ("concat", "concatenate"),
    "conv2d": ("convolution", "_convolution", "mkldnn_convolution"),
    "cross_entropy": ("cross_entropy_loss", "linear_cross_entropy"),
    "nll_loss": ("nll_loss2d", "nll_loss_nd"),
    "scaled_dot_product_attention": (
        "_scaled_dot_product_attention_math",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_efficient_attention",
    ),
}  # fmt: skip
"""What else computes the same, by the last part of the forbidden name. Same-named forms are found by themselves."""

_OTHER_MEANING = {("unfold", "Tensor.unfold"), ("unfold", "torch.ops.aten.unfold")}
"""Same name, another operation: Tensor.unfold is a sliding view, F.unfold is im2col."""

_KERNELS = {
    "softmax": ("_softmax", "_safe_softmax"),
    "log_softmax": ("_log_softmax",),
    "conv2d": ("convolution", "mkldnn_convolution", "_slow_conv2d_forward"),
    "unfold": ("im2col",),
}

_TORCH = os.path.dirname(torch.__file__) + os.sep
_BETWEEN = {
    _TORCH + os.path.join(*parts)
    for parts in (
        ("overrides.py",), ("_ops.py",), ("_jit_internal.py",), ("_tensor.py",), ("_compile.py",),
        ("utils", "_contextlib.py"),
    )
}  # fmt: skip
"""Files of torch that stand between a caller and the function that it called."""
_OWN_BUSINESS = tuple(
    _TORCH + name + os.sep for name in ("autograd", "optim", "distributions", os.path.join("nn", "utils"))
)
"""Parts of torch that compute for themselves, whoever called them."""
_GRADER = os.path.dirname(os.path.dirname(__file__)) + os.sep
_TRANSPARENT = (_GRADER + "probes" + os.sep, _GRADER + "forbidding" + os.sep)


def _overloads(packet: Any) -> Iterator[Any]:
    """The overloads of an operation that exist for tensors; TorchScript lists some, such as erf.int, that do not."""
    for name in packet.overloads():
        operation = getattr(packet, name)
        if torch._C._dispatch_has_kernel(operation.name()):
            yield operation


def _holders() -> list[tuple[str, Any]]:
    return [
        ("torch", torch),
        ("Tensor", torch.Tensor),
        ("torch.nn.functional", torch.nn.functional),
        ("torch.linalg", torch.linalg),
        ("torch.special", torch.special),
        ("torch.nn.functional", torch._C._nn),
        ("torch.linalg", torch._C._linalg),  # type: ignore[attr-defined]
        ("torch.special", torch._C._special),  # type: ignore[attr-defined]
    ]


class TorchCalls:
    """Refuses functions of torch to the submission."""

    def __init__(self, guard: ForbidGuard) -> None:
        self.guard = guard
        self.functions: dict[Any, tuple[str, str]] = {}
        """(name in the exercise's list, name of what was called), by the function."""
        self.kernels: dict[Any, tuple[str, str]] = {}
        self.dtypes: dict[torch.dtype, str] = {}
        self._thread = threading.local()
        self._backward_apply = self._watch_backward()

    def refuse(self, name: str, written: str, value: Any) -> tuple[str, list[type]]:
        """Takes in one name; says how it is enforced, and which classes of torch.nn are the same thing."""
        if isinstance(value, torch.dtype):
            self.dtypes[value] = written
            return "passing it", []
        if isinstance(value, type) or not callable(value):
            return "", []
        if not _is_overridable(name):
            return "", []
        base = name.rpartition(".")[2]
        for form in (base, *_FAMILIES.get(base, ())):
            self._refuse_form(base, form, written)
        self.functions.setdefault(value, (written, written))
        for kernel in _KERNELS.get(base, (base, *_FAMILIES.get(base, ()))):
            self._refuse_kernel(kernel, written)
        return "calling it or any form of it", _classes(base)

    def _refuse_form(self, base: str, form: str, written: str) -> None:
        plain = form.strip("_")
        spellings = {
            f"{prefix}{name}{suffix}"
            for name in (plain, f"_{plain}", f"linalg_{plain}", f"_linalg_{plain}", f"special_{plain}")
            for prefix, suffix in (("", ""), ("", "_"), ("__", "__"))
        } | {form, f"__r{plain}__", f"__i{plain}__"}
        for holder_name, holder in _holders():
            for spelling in spellings:
                function = getattr(holder, spelling, None)
                shown = f"{holder_name}.{spelling.removeprefix('linalg_').removeprefix('special_')}"
                if callable(function) and not isinstance(function, type) and (base, shown) not in _OTHER_MEANING:
                    shown = "@" if plain == "matmul" and spelling.startswith("__") else shown
                    self.functions.setdefault(function, (written, shown))
        for spelling in spellings:
            shown = f"torch.ops.aten.{spelling}"
            packet = getattr(torch.ops.aten, spelling, None) if not spelling.startswith("__") else None
            if packet is not None and (base, shown) not in _OTHER_MEANING:
                self.functions.setdefault(packet, (written, shown))
                for operation in _overloads(packet):
                    self.functions.setdefault(operation, (written, shown))

    def _refuse_kernel(self, kernel: str, written: str) -> None:
        for spelling in (kernel, f"{kernel}_", f"_{kernel}", f"linalg_{kernel}", f"special_{kernel}"):
            packet = getattr(torch.ops.aten, spelling, None)
            for operation in _overloads(packet) if packet is not None else ():
                # A composite one is taken apart before a dispatch mode could see it.
                if not torch._C._dispatch_has_kernel_for_dispatch_key(operation.name(), "CompositeImplicitAutograd"):
                    self.kernels.setdefault(operation, (written, written))

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watches this thread."""
        with contextlib.ExitStack() as stack:
            if self.functions or self.dtypes:
                stack.enter_context(_Functions(self))
            if self.kernels:
                stack.enter_context(_Kernels(self))
            self._thread.depth = getattr(self._thread, "depth", 0) + 1
            try:
                yield
            finally:
                self._thread.depth -= 1

    def _watch_backward(self) -> Any:
        """Torch switches a function mode off inside `backward()`; the submission's own backward functions, which run in
        there, are its code all the same."""
        kind: Any = torch.autograd.function.BackwardCFunction
        original = kind.apply

        def apply(node: Any, *args: Any) -> Any:
            if not getattr(self._thread, "depth", 0):
                return original(node, *args)
            with _Functions(self):
                return original(node, *args)

        kind.apply = apply
        return original

    def remove(self) -> None:
        """Leaves torch as it was."""
        kind: Any = torch.autograd.function.BackwardCFunction
        kind.apply = self._backward_apply

    def called(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any], frame: FrameType | None) -> None:
        """Judges one call of a function of torch's."""
        found = self.functions.get(function)
        if found is not None and self._is_submission(frame, function):
            self.guard.refuse(found[0], frame, shown=found[1])
        if self.dtypes:
            for value in (*args, *kwargs.values()):
                if isinstance(value, torch.dtype) and value in self.dtypes and self._is_submission(frame, function):
                    self.guard.refuse(self.dtypes[value], frame)

    def _is_submission(self, frame: FrameType | None, function: Any) -> bool:
        own = getattr(function, "__code__", None)
        while frame is not None and (frame.f_code is own or frame.f_code.co_filename in _BETWEEN):
            frame = frame.f_back
        return self.guard.is_submission(frame)

    def ran(self, kernel: Any, frame: FrameType | None) -> None:
        """Judges a kernel that is about to run."""
        found = self.kernels.get(kernel)
        if found is None:
            return
        handler = _Functions.__torch_function__.__code__
        start = frame
        while frame is not None:
            file = frame.f_code.co_filename
            if frame.f_code is handler or file.startswith(_OWN_BUSINESS):
                return
            if self.guard.is_submission(frame):
                self.guard.refuse(found[0], start, shown=found[1])
            if not (file.startswith(_TORCH) or file.startswith(_TRANSPARENT) or file == EXECUTED):
                return
            frame = frame.f_back


class _Functions(TorchFunctionMode):
    def __init__(self, calls: TorchCalls) -> None:
        super().__init__()
        self._calls = calls

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        calls = self._calls
        if func in calls.functions or calls.dtypes:
            calls.called(func, args, kwargs or {}, sys._getframe(1))
        return func(*args, **kwargs) if kwargs else func(*args)


class _Kernels(DispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, calls: TorchCalls) -> None:
        super().__init__()
        self._calls = calls

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in self._calls.kernels:
            self._calls.ran(func, sys._getframe(1))
        return func(*args, **kwargs) if kwargs else func(*args)


def _is_overridable(name: str) -> bool:
    """Whether calls of this name pass through function modes; torch.compile, torch.nn.utils, torch.func do not."""
    holder = name.rpartition(".")[0]
    holders = {full for full, _ in _holders()} | {"torch.Tensor", "torch.autograd"}
    return holder in holders and name not in ("torch.compile", "torch.vmap")


def _classes(base: str) -> list[type]:
    """Layers of torch.nn that are nothing but the function: GELU, Softmax, Linear, CrossEntropyLoss."""
    names = {base.replace("_", ""), base.replace("_", "") + "loss", base.replace("_", "") + "2d"}
    if base == "softmax":
        names.add("softmin")
    return [
        value
        for name, value in vars(torch.nn).items()
        if name.lower() in names and isinstance(value, type) and issubclass(value, torch.nn.Module)
    ]
