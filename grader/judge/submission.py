"""`submission`: what a hidden test calls as if it were the learner's module."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterator
from typing import Any

from grader.judge.errors import SubmissionError
from grader.judge.proxies import RemoteFunction
from grader.judge.session import Session


class Measurement:
    """What probes in the worker found: one summary for each call made inside the `with` block."""

    def __init__(self) -> None:
        self.results: list[dict[str, Any]] = []


class Submission:
    """The learner's module. Its functions run in the worker; a worker that died is replaced before the next check."""

    def __init__(self, start: Callable[[], Session], compile_launches: Callable[..., list[dict[str, Any]]]) -> None:
        self._start = start
        self._compile = compile_launches
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """The conversation with the present worker."""
        if self._session is None or not self._session.alive:
            self._session = self._start()
        return self._session

    def close(self) -> None:
        """Ends the worker, if there is one."""
        if self._session is not None:
            self._session.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        session = self.session
        kind = session.names.get(name)
        if kind is None:
            raise SubmissionError(["AttributeError", "Exception"], _missing(name, session), "")
        if kind == "value":
            return session.attribute_of(None, name)
        return RemoteFunction(session, None, name)

    def many(self, name: str, calls: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[Any]:
        """The results of many calls `(args, kwargs)` of a function, in one message: for statistics over cheap calls."""
        return self.session.many(name, calls)

    def prop(self, kind: type, *args: Any, **kwargs: Any) -> Any:
        """An object of the test's class `kind`, living in the worker, so that calling it costs the submission nothing.

        The class must be self-contained (imports inside its methods) and hold no secret.
        """
        return self.session.prop(kind, *args, **kwargs)

    @contextlib.contextmanager
    def measure(self, probes: dict[str, dict[str, Any]]) -> Iterator[Measurement]:
        """Opens probes around every call made inside the block."""
        measurement = Measurement()
        session = self.session
        entry = (probes, measurement.results)
        session.measuring.append(entry)
        try:
            yield measurement
        finally:
            session.measuring.remove(entry)

    def compile(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[dict[str, Any]]:
        """Compiles the launches of a call for sm_90 in a worker without Triton's interpreter."""
        return self._compile(name, args, kwargs)


def _missing(name: str, session: Session) -> str:
    defined = [n for n, kind in session.names.items() if kind in ("function", "class")]
    close = difflib.get_close_matches(name, defined, 1)
    hint = f"; it has {close[0]}: was it renamed?" if close else f"; it defines {', '.join(defined) or 'nothing'}"
    return f"the file has no {name}{hint}"
