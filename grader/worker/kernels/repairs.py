"""Right kernels that the interpreter stops: repaired once per process, watched or not."""

from __future__ import annotations

from typing import Any

import numpy as np


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
