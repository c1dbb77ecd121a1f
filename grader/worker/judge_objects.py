"""Stand-ins, in the worker, for functions and objects that a test passed in: what is done to them, the judge does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grader.worker.server import Server


def stand_in(server: Server, payload: list[Any]) -> JudgeObject:
    """The stand-in that has what the judge's object has, as its payload tells."""
    if payload[2] == "iterator":
        return JudgeIterator(server, payload)
    return JudgeCollection(server, payload) if "__len__" in payload[3] else JudgeObject(server, payload)


class JudgeObject:
    """The worker's end of a function, or an object with methods, that a test passed in."""

    def __init__(self, server: Server, payload: list[Any]) -> None:
        self._server = server
        self._payload = payload
        self.__name__ = payload[2]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._server.call_judge(self._payload, "__call__", args, kwargs)

    def __getattr__(self, name: str) -> Any:
        payload = self.__dict__.get("_payload", ["", 0, "", []])
        if name in payload[3]:
            return lambda *args, **kwargs: self._server.call_judge(payload, name, args, kwargs)
        raise AttributeError(f"this {payload[2]} has no attribute {name!r}")

    def __deepcopy__(self, memo: Any) -> JudgeObject:
        return self


class JudgeCollection(JudgeObject):
    """The worker's end of an object with a length and items."""

    def __len__(self) -> int:
        return int(self._server.call_judge(self._payload, "__len__", (), {}))

    def __getitem__(self, key: Any) -> Any:
        return self._server.call_judge(self._payload, "__getitem__", (key,), {})


class JudgeIterator(JudgeObject):
    """The worker's end of an iterator that a test passed in."""

    def __iter__(self) -> JudgeIterator:
        return self

    def __next__(self) -> Any:
        going, value = self._server.call_judge(self._payload, "__next__", (), {})
        if not going:
            raise StopIteration
        return value
