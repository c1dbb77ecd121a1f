"""The reference solutions as modules, to be held against libraries in this process."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def solution(chapter: str, slug: str) -> ModuleType:
    """The reference solution of an exercise: `solution("04_kernels/07_ptq", "gptq")`."""
    return module_at(f"solutions/{chapter}/{slug}.py")


def module_at(path: str) -> ModuleType:
    """A file of this repository as a module."""
    name = "peers_" + path.removesuffix(".py").replace("/", "_")
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
    return sys.modules[name]
