"""Imports: refused to the submission by name, and watched for modules that hold something forbidden."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grader.worker.forbid import ForbidGuard


class Imports:
    """Stands in front of `import`, `__import__` and `importlib.import_module`."""

    def __init__(self, guard: ForbidGuard) -> None:
        self._guard = guard
        self._refused: set[str] = set()
        self._awaited: set[str] = set()
        self._originals: list[tuple[ModuleType, str, Any]] = []
        self._finder: _Arrivals | None = None

    def refuse(self, names: Iterable[str]) -> None:
        """Refuses these modules, and what is below them; notices when a module on the way to one of them arrives."""
        self._awaited |= set(names)
        # A method cannot be imported.
        self._refused |= {name for name in self._awaited if not name.startswith(("builtins.", "torch.Tensor."))}
        if self._originals:
            return
        self._replace(builtins, "__import__", self._import_statement)
        self._replace(importlib, "__import__", self._import_statement)
        self._replace(importlib, "import_module", self._import_module)
        self._finder = _Arrivals(self._wanted, self._guard.look_again)
        sys.meta_path.insert(0, self._finder)

    def remove(self) -> None:
        """Puts the originals back."""
        for module, name, original in self._originals:
            setattr(module, name, original)
        self._originals.clear()
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)

    def _replace(self, module: ModuleType, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(module, name)
        self._originals.append((module, name, original))
        setattr(module, name, make(original))

    def _import_statement(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __import__(
            name: str, globals: Any = None, locals: Any = None, fromlist: Sequence[str] | None = (), level: int = 0
        ) -> Any:
            if level == 0:
                self._check(name, fromlist or (), sys._getframe(1))
            return original(name, globals, locals, fromlist, level)

        return __import__

    def _import_module(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def import_module(name: str, package: str | None = None) -> Any:
            self._check(name, (), sys._getframe(1))
            return original(name, package)

        return import_module

    def _check(self, name: str, fromlist: Sequence[str], frame: Any) -> None:
        if not self._guard.is_submission(frame):
            return
        for refused in self._refused:
            if name == refused or name.startswith(f"{refused}."):
                self._guard.refuse(refused, frame, importing=True)
            for part in fromlist:
                # `from scipy import signal`; a function in the list is refused when it is called, not here
                if f"{name}.{part}" == refused and _is_module(refused):
                    self._guard.refuse(refused, frame, importing=True)

    def _wanted(self, name: str) -> bool:
        return any(awaited == name or awaited.startswith(f"{name}.") for awaited in self._awaited)


def _is_module(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, AttributeError, ValueError):
        return False


class _Arrivals(MetaPathFinder):
    """Lets others find modules and calls back when one that matters has been executed."""

    def __init__(self, wanted: Callable[[str], bool], arrived: Callable[[], None]) -> None:
        self._wanted = wanted
        self._arrived = arrived

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not self._wanted(fullname):
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            if not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Announcing(spec.loader, self._arrived)
                return spec
        return None


class _Announcing(Loader):
    """Another loader, with a word when it has done."""

    def __init__(self, loader: Any, arrived: Callable[[], None]) -> None:
        self._loader = loader
        self._arrived = arrived

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # What the module sees of itself is its real loader.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._arrived()
