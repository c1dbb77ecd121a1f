"""Right kernels that the interpreter stops: repaired once per process, watched or not."""

from __future__ import annotations

from typing import Any

import numpy as np


def repair_interpreter() -> None:
    """All of them."""
    autotune_runs_first_config()
    scalar_masks_stay_boolean()
    loop_bounds_are_numbers()
    integer_sums_wrap()


def autotune_runs_first_config() -> None:
    """An autotuned kernel runs once, with the first config left by pruning: the interpreter has nothing to time."""
    from triton.runtime.autotuner import Autotuner

    if getattr(Autotuner.run, "runs_first_config", False):
        return

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        try:
            config = (self.prune_configs(kwargs) if len(self.configs) > 1 else self.configs)[0]
            self.best_config = config
            if config.pre_hook is not None:
                config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
            return self.fn.run(*args, **kwargs, **config.all_kwargs())
        finally:
            self.nargs = None

    run.runs_first_config = True  # type: ignore[attr-defined]
    Autotuner.run = run


def scalar_masks_stay_boolean() -> None:
    """Masks like `(columns < n) & (row < m)` with a scalar row work.

    Otherwise the interpreter makes an int32 of the scalar on its way to the block's shape, and then refuses the mask.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    if getattr(builder.create_splat, "keeps_booleans", False):
        return
    splat = builder.create_splat

    def create_splat(self: Any, shape: Any, value: Any) -> Any:
        if value.data.dtype == np.bool_ and value.dtype.scalar != tl.int1:
            value = interpreter.TensorHandle(value.data, tl.int1)
        return splat(self, shape, value)

    create_splat.keeps_booleans = True  # type: ignore[attr-defined]
    builder.create_splat = create_splat


def loop_bounds_are_numbers() -> None:
    """`range(0, n, BLOCK)` works in Triton 3.6 with numpy 2.4, which no longer makes a number of an array of one."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor
    if getattr(patch, "makes_numbers", False):
        return

    def patch_lang_tensor(tensor: Any, *scope: Any) -> None:
        patch(tensor, *scope)
        scope[0].set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    patch_lang_tensor.makes_numbers = True  # type: ignore[attr-defined]
    interpreter._patch_lang_tensor = patch_lang_tensor


def integer_sums_wrap() -> None:
    """tl.sum of integers wraps around as on a GPU. Before Triton 3.9 the sum of a whole block raises OverflowError."""
    from triton.runtime import interpreter

    reduction = interpreter.ReduceScanOpInterface
    convert = reduction.to_tensor
    if getattr(convert, "wraps", False):
        return

    def to_tensor(self: Any, value: Any, dtype: Any) -> Any:
        if not getattr(value, "shape", ()):
            value = np.array([value]).astype(interpreter._get_np_dtype(dtype))[0]
        return convert(self, value, dtype)

    to_tensor.wraps = True  # type: ignore[attr-defined]
    reduction.to_tensor = to_tensor
