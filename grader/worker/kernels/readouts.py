"""Tensors that the wrapper takes to the host: their values leave torch there, unseen by its dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

READOUTS = ("numpy", "tolist", "__array__", "__dlpack__")
"""Methods of a tensor that give its values to other code. A GPU's memory has to be copied for it."""


class ReadoutTrace(TorchFunctionMode):
    """Calls `on_readout` with the method's name and the tensor."""

    def __init__(self, on_readout: Callable[[str, torch.Tensor], None]) -> None:
        super().__init__()
        self._on_readout = on_readout
        self._names = {getattr(torch.Tensor, name): name for name in READOUTS}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = self._names.get(func)
        if name is not None and args:
            self._on_readout(f"Tensor.{name}", args[0])
        return func(*args, **(kwargs or {}))
