"""Writing files so that nothing is ever lost: atomically, and with a backup of what was there."""

from __future__ import annotations

import os
import tempfile
from datetime import datetime
from pathlib import Path

BACKUPS = ".backups"


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file in one step: whoever reads or kills this sees the old file or the new one, never half of one."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        path = path.resolve()  # the link stays, what it points to is replaced
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def keep_backup(root: Path, path: Path) -> Path:
    """Copy a file below `root` to .backups/ there, under its own path and the time; returns the copy."""
    inside = path.relative_to(root)
    stamp = datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
    folder = root / BACKUPS / inside.parent
    folder.mkdir(parents=True, exist_ok=True)
    data = path.read_bytes()
    for count in range(1, 1000):
        again = f"-{count}" if count > 1 else ""
        copy = folder / f"{inside.stem}.{stamp}{again}{inside.suffix}"
        try:
            with copy.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            continue
        return copy
    raise FileExistsError(f"{folder}: too many backups of {inside.name} within one second")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
