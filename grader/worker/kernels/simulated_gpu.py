"""A driver that says what an H100 is, for Triton on a machine without a GPU.

Triton asks its driver for a target, a device and a stream before it compiles, and learners' files ask it for the number
of multiprocessors. Without a GPU both end in "0 active drivers". This driver answers; it cannot launch anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

H100 = {
    "max_shared_mem": 232448,
    "max_num_regs": 65536,
    "multiprocessor_count": 132,
    "warpSize": 32,
    "sm_clock_rate": 1980000,
    "mem_clock_rate": 2619000,
    "mem_bus_width": 5120,
}
"""As triton.runtime.driver.active.utils.get_device_properties names them."""


class _Utils:
    def get_device_properties(self, device: int) -> dict[str, int]:
        return dict(H100)


class SimulatedGPU:
    """The part of Triton's driver interface that works without hardware."""

    def __init__(self, arch: int = 90) -> None:
        from triton.backends.compiler import GPUTarget

        self.target = GPUTarget("cuda", arch, 32)
        self.utils = _Utils()
        self.binary_ext = "cubin"

    def get_current_target(self) -> Any:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        return None

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        arch = int(self.target.arch)
        return arch // 10, arch % 10

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_benchmarker(self) -> Callable[..., list[float]]:
        def do_bench(call: Callable[[], object], *, quantiles: Any = None, **_: Any) -> list[float]:
            call()
            return [1.0] * len(quantiles or (0.5,))

        return do_bench


def stand_in(arch: int = 90, *, always: bool = False) -> None:
    """Make the simulated GPU Triton's active driver: where there is no real one, or in any case."""
    from triton.runtime.driver import driver

    if not always:
        try:
            _ = driver.active
        except RuntimeError:
            always = True
    if always:
        driver.set_active(SimulatedGPU(arch))
