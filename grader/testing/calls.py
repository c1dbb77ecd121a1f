"""How a test calls: in place, expecting an exception, with warnings as errors; and whether a result is new memory."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from grader.testing.failure import CheckFailed
from grader.testing.render import short


def in_place(function: Any, *names: str) -> Callable[..., Any]:
    """`function`, allowed to change the named arguments; the change shows in the test's own tensors, arrays or lists.

    >>> in_place(submission.rope_, "q", "k")(q, k, cos, sin)
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        session = function._session
        before, session.allowed_to_change = session.allowed_to_change, names
        try:
            return function(*args, **kwargs)
        finally:
            session.allowed_to_change = before

    return call


@contextlib.contextmanager
def warnings_are_errors(submission: Any) -> Iterator[None]:
    """Inside the block, a warning raised in the submission (numpy's divide by zero, say) is an exception.

    >>> with warnings_are_errors(submission):
    ...     submission.attention(q, k, v, mask)
    """
    options = submission.session.call_options
    options["warnings"] = "error"
    try:
        yield
    finally:
        options.pop("warnings", None)


@contextlib.contextmanager
def raises(*kinds: type[BaseException], match: str = "") -> Iterator[None]:
    """The submission must raise one of these built-in exceptions inside the block, with `match` in its message.

    >>> with raises(ValueError):
    ...     submission.pass_at_k(3, 4, 1)
    """
    wanted = " or ".join(kind.__name__ for kind in kinds)
    try:
        yield
    except Exception as error:
        names = getattr(error, "kinds", None)
        if names is None:
            raise
        if not any(kind.__name__ in names for kind in kinds):
            raise
        message = getattr(error, "message", "")
        if "NotImplementedError" in names and NotImplementedError not in kinds:
            raise
        if match and match not in message:
            raise CheckFailed(f"{wanted} raised, but its message lacks {match!r}", got=message) from None
        return
    raise CheckFailed(f"no exception; {wanted} expected", expected=wanted, aspect="no exception")


def fresh(result: Any, what: str = "the result") -> None:
    """`result` shares no memory with an argument of the call that made it.

    >>> y = submission.bias_gelu(x, bias)
    >>> fresh(y)
    """
    from grader.judge import current

    call = current.session().calls[-1]
    for value in _leaves(result):
        for memory in call.shared:
            if _uses(value, memory):
                raise CheckFailed(
                    f"{what} shares memory with an argument; return a new one", got=short(value), aspect="shared memory"
                )


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    elif hasattr(type(value), "__record_fields__"):
        yield from _leaves(list(value.__record_fields__.values()))
    else:
        yield value


def _uses(value: Any, memory: Any) -> bool:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return hasattr(memory, "data_ptr") and bool(value.untyped_storage().data_ptr() == memory.data_ptr())
    base = value
    while hasattr(base, "base") and base.base is not None:
        base = base.base
    return base is memory or (isinstance(base, memoryview) and base.obj is memory)
