"""What a hidden test raises when a submission is wrong, and the marks that a test function can carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from grader.report import Cost
from grader.testing.render import short

Test = TypeVar("Test", bound=Callable[..., Any])

_ABSENT: Final = object()


class CheckFailed(Exception):
    """The submission gave a wrong answer. Every part is text, ready to be shown.

    An Exception and not a BaseException: hypothesis shrinks Exceptions only, and no learner's `except` can swallow this
    one, because learner's code runs in another process.

    >>> raise CheckFailed("shape (3, 1), expected (3,)", got="tensor([[1.], [2.], [3.]])", aspect="shape")
    """

    is_verdict = True
    """Raised in a callback it ends the whole call, whatever the submission does with the exception."""

    def __init__(
        self,
        message: str,
        *,
        got: str = "",
        expected: str = "",
        where: str = "",
        call: str = "",
        costs: Sequence[Cost] = (),
        aspect: str = "",
        subject: Any = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.got = got
        self.expected = expected
        self.where = where
        self.call = call
        """The call that went wrong; left empty, the judge puts in the last call that the test made."""
        self.costs = tuple(costs)
        self.aspect = aspect or message
        """What was wrong ("shape", "value", ...). Shrinking keeps to examples that are wrong in the same aspect."""
        self.subject = subject
        """The wrong value itself, by which the judge finds the call that returned it."""
        self.example: dict[str, Any] | None = None
        """The arguments that a property test drew; set by `given`."""

    def __str__(self) -> str:
        parts = [self.message]
        for label, text in (
            ("call", self.call),
            ("got", self.got),
            ("expected", self.expected),
            ("where", self.where),
        ):
            if text:
                parts.append(f"  {label + ':':<10}{text}")
        return "\n".join(parts)


def require(condition: object, message: str, *, got: object = _ABSENT, expected: object = _ABSENT) -> None:
    """Fail the check with `message` unless `condition` holds. For whatever `close` and `equal` do not cover.

    >>> require(len(blocks) == 3, "10 columns in blocks of 4 are 3 blocks", got=len(blocks), expected=3)
    """
    __tracebackhide__ = True
    if not condition:
        raise CheckFailed(
            message,
            got="" if got is _ABSENT else short(got),
            expected="" if expected is _ABSENT else short(expected),
        )


def points(weight: float) -> Callable[[Test], Test]:
    """Give a check this weight (1 without the mark); an exercise's points are split by weight.

    >>> @points(3)
    ... def test_matches_float64_oracle(submission): ...
    """
    if not weight > 0:
        raise ValueError(f"points({weight!r}): a check weighs more than nothing")

    def mark(test: Test) -> Test:
        test.__points__ = weight  # type: ignore[attr-defined]
        return test

    return mark


def needs(*checks: str) -> Callable[[Test], Test]:
    """Block a check unless the named checks passed, so that one fault is not reported twice.

    >>> @needs("worked_example")
    ... def test_cost_two_passes(submission): ...
    """
    if not checks or not all(isinstance(check, str) for check in checks):
        raise TypeError('needs() takes names of checks: @needs("worked_example")')

    def mark(test: Test) -> Test:
        earlier: tuple[str, ...] = getattr(test, "__needs__", ())
        test.__needs__ = (*earlier, *(check.removeprefix("test_") for check in checks))  # type: ignore[attr-defined]
        return test

    return mark
