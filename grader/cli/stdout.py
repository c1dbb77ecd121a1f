"""--json prints one document and nothing else, whatever else would like to print."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


@contextmanager
def reserved() -> Iterator[TextIO]:
    """While open, everything that is written to stdout (from C code as well) goes to stderr; the stream that it gives
    is the real stdout."""
    sys.stdout.flush()
    try:
        number = sys.stdout.fileno()
    except OSError:  # stdout is no file, as in a test: only Python can write to it
        real, sys.stdout = sys.stdout, sys.stderr
        try:
            yield real
        finally:
            sys.stdout = real
        return
    kept = os.dup(number)
    os.dup2(sys.stderr.fileno(), number)
    try:
        with open(os.dup(kept), "w", encoding="utf-8") as real_file:
            yield real_file
    finally:
        sys.stdout.flush()
        os.dup2(kept, number)
        os.close(kept)
