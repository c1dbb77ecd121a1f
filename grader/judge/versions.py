"""The versions that a verdict may depend on."""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata

PACKAGES = ("llm-by-hand", "torch", "triton", "numpy", "scipy", "hypothesis")


@cache
def versions() -> dict[str, str]:
    """Of Python and of the packages that are installed, without importing any."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
