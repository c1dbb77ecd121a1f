"""Compile the launches of a wrapper for a GPU that is not there.

    launches = compile_launches(lambda: softmax(x))

runs the wrapper with every launch replaced by an ahead-of-time compile, whose signature (types, constants, alignment)
Triton takes from the launch's own arguments. The wrapper's tensors stay on the CPU and no kernel runs: what it returns
is rubbish. The compiler refuses what the interpreter forgives (NumPy in a kernel, `break`, tl.dot on mixed types).

Needs a process in which TRITON_INTERPRET is not set, and the right to start ptxas.
"""

from __future__ import annotations

import atexit
import contextlib
import inspect
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from grader.worker.kernels.ptx import access_widths, instructions, resources
from grader.worker.kernels.simulated_gpu import stand_in

MOST_CONFIGS = 8
"""Configurations of an autotuned kernel that are compiled."""


class CompilerUnavailable(RuntimeError):
    """This process cannot compile kernels; says why."""


_cache: str | None = None


def private_cache() -> str:
    """The folder for compiled kernels: TRITON_CACHE_DIR if the worker was given one, else one that goes at exit.

    The user's own cache in the home folder is neither read nor filled.
    """
    global _cache
    if _cache is None and "TRITON_CACHE_DIR" in os.environ:
        return os.environ["TRITON_CACHE_DIR"]
    if _cache is None:
        _cache = tempfile.mkdtemp(prefix="kernels-")
        os.environ["TRITON_CACHE_DIR"] = _cache
        atexit.register(shutil.rmtree, _cache, ignore_errors=True)
    return _cache


def prepare(arch: int = 90) -> None:
    """Make ready to compile. Call before the learner's file is loaded: @triton.jit decides then how kernels run."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise CompilerUnavailable("kernels cannot be compiled in a process with TRITON_INTERPRET=1")
    private_cache()
    # Triton 3.9 announces a new default for 3.10 in a warning, which would reach the learner. The old one stays.
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    stand_in(arch, always=True)


def compile_launches(
    call: Callable[[], object], *, filename: str | None = None, arch: int = 90
) -> list[dict[str, Any]]:
    """The launches of `call` in order, each as plain data. `filename`: only lines of this file are named in refusals.

    Keys: kernel, grid, config (of an autotuned kernel, else ""), num_warps, num_stages, error (why the compiler
    refused, with the learner's line; else ""), registers (per thread), spills (bytes of stack per thread), shared
    (bytes), wgmma and mma (tensor cores used), load_widths and store_widths (bytes per thread and instruction),
    instructions (the distinct PTX instructions).

    A launch whose kernel was refused counts as done, and the wrapper goes on.
    """
    prepare(arch)
    launches: list[dict[str, Any]] = []
    with _launches_compile(launches, filename):
        call()
    return launches


@contextlib.contextmanager
def _launches_compile(launches: list[dict[str, Any]], filename: str | None) -> Iterator[None]:
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    run, autotune = JITFunction.run, Autotuner.run
    config_name = [""]
    facts: dict[str, dict[str, Any]] = {}

    def compile_instead(self: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> None:
        launch: dict[str, Any] = {
            "kernel": self.__name__,
            "grid": _grid(self, grid, args, kwargs),
            "config": config_name[0],
            "error": "",
        }
        launches.append(launch)
        try:
            # If ptxas refuses, Triton prints the whole program.
            with contextlib.redirect_stdout(io.StringIO()):
                kernel = run(self, *args, grid=grid, warmup=True, **kwargs)
        except Exception as error:
            launch["error"] = refusal(error, self, filename or self.fn.__code__.co_filename)
            return
        if kernel.hash not in facts:
            facts[kernel.hash] = _facts(kernel)
        launch.update(facts[kernel.hash])

    def every_config(self: Any, *args: Any, **kwargs: Any) -> None:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        try:
            for config in self.prune_configs(kwargs)[:MOST_CONFIGS]:
                config_name[0] = str(config)
                if config.pre_hook is not None:
                    config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
                self.fn.run(*args, **kwargs, **config.all_kwargs())
        finally:
            config_name[0] = ""
            self.nargs = None

    JITFunction.run, Autotuner.run = compile_instead, every_config
    try:
        yield
    finally:
        JITFunction.run, Autotuner.run = run, autotune


def _grid(function: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
    if callable(grid):
        known = {name: value for name, value in kwargs.items() if name in function.signature.parameters}
        bound = inspect.signature(function.fn).bind_partial(*args, **known)
        bound.apply_defaults()
        grid = grid({**kwargs, **bound.arguments})
    return [int(n) for n in grid] + [1] * (3 - len(grid))


def _facts(kernel: Any) -> dict[str, Any]:
    ptx = kernel.asm["ptx"]
    opcodes = instructions(ptx)
    registers, stack = resources(kernel.asm["cubin"])
    loads, stores = access_widths(ptx)
    return {
        "num_warps": int(kernel.metadata.num_warps),
        "num_stages": int(kernel.metadata.num_stages),
        "registers": registers,
        "spills": stack,
        "shared": int(kernel.metadata.shared),
        "wgmma": any(opcode.startswith("wgmma.mma_async") for opcode in opcodes),
        "mma": any(opcode.startswith(("mma.sync", "wmma.mma")) for opcode in opcodes),
        "load_widths": loads,
        "store_widths": stores,
        "instructions": opcodes,
    }


def refusal(error: BaseException, function: Any, filename: str) -> str:
    """The compiler's complaint with the learner's line, without Triton's own source lines."""
    line, message = 0, _message(error)
    cause: BaseException | None = error
    while cause is not None:
        # An error inside a called @triton.jit function is wrapped once per caller: the innermost has the right line.
        node, source = getattr(cause, "node", None), getattr(cause, "src", None)
        if node is not None and hasattr(node, "lineno"):
            start = _first_line(source, function, filename)
            if start:
                line, message = start + node.lineno - 1, _message(cause)
        elif line and not getattr(cause, "src", None):
            message = _message(
                cause
            )  # an assertion or a type error below the last compilation error says what is wrong
        cause = cause.__cause__ or cause.__context__
    return f"line {line}: {message}" if line else message


def _message(error: BaseException) -> str:
    text = getattr(error, "error_message", None) or ("" if hasattr(error, "node") else str(error))
    if isinstance(error, KeyError) and error.args:
        text = error.args[0]  # str() would put it in quotes
    first = next((line.strip() for line in str(text).splitlines() if line.strip()), "")
    return first or type(error).__name__


def _first_line(source: Any, function: Any, filename: str) -> int:
    """The line of the learner's file where the function with this source begins; 0 if it is not in that file."""
    from triton.runtime.jit import JITFunction

    candidates = [function, *(v for v in function.fn.__globals__.values() if isinstance(v, JITFunction))]
    for candidate in candidates:
        if candidate.src == source and candidate.fn.__code__.co_filename == filename:
            lines, start = inspect.getsourcelines(candidate.fn)
            # The compiler's line 1 is the `def`, after the decorators.
            return int(start) + next((i for i, line in enumerate(lines) if line.strip().startswith("def ")), 0)
    return 0
