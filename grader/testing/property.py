"""Property tests: a hidden test over many drawn examples, and the smallest example that fails."""

from __future__ import annotations

import functools
import inspect
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, cast

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity
from hypothesis import strategies as st
from hypothesis.errors import Flaky, HypothesisException
from hypothesis.strategies import SearchStrategy

from grader.testing.failure import CheckFailed
from grader.testing.recipes import fingerprint, freeze, size, thaw
from grader.testing.render import render

SHRINK_SECONDS = 2.0
SHRINK_CALLS = 500

_seed: ContextVar[int] = ContextVar("seed", default=0)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw examples from this seed inside the block.

    >>> with seeded(7):
    ...     test_matches_float64_oracle(submission)
    """
    token = _seed.set(seed)
    try:
        yield
    finally:
        _seed.reset(token)


def current_seed() -> int:
    """The seed that examples are drawn from now."""
    return _seed.get()


class PropertyTest(Protocol):
    """A test made by `given`."""

    strategies: dict[str, SearchStrategy[Any]]

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the test on all examples."""

    def run_example(self, submission: Any, example: dict[str, Any], **fixtures: Any) -> None:
        """Run the test once, on these drawn arguments."""


def given(*, examples: int = 25, **strategies: SearchStrategy[Any]) -> Callable[[Callable[..., None]], PropertyTest]:
    """Run a test on `examples` drawn sets of arguments, the simplest first, and report the smallest that fails.

    The test's other parameters stay: `submission`, and `rng` if it asks for one. `rng` and the global generators of
    random, numpy and torch are seeded anew for each example, by the example itself, so it can be run again alone.
    The exception of the smallest failing example carries its arguments as `.example`.

    >>> @given(x=tensors(rows=(1, 4), n=(1, 300)), block=integers(1, 400))
    ... def test_matches_float64_oracle(submission, x, block):
    ...     close(submission.online_softmax(x, block=block), x.double().softmax(-1))
    """
    if not strategies:
        raise TypeError("given() needs a strategy for at least one argument")
    for name, strategy in strategies.items():
        if not isinstance(strategy, SearchStrategy):
            raise TypeError(f"given({name}={strategy!r}): not a strategy; for one fixed value write just(...)")
    drawn = st.fixed_dictionaries(strategies)

    def decorate(test: Callable[..., None]) -> PropertyTest:
        parameters = inspect.signature(test).parameters
        unknown = [name for name in strategies if name not in parameters]
        if unknown:
            raise TypeError(f"{test.__name__} has no parameter {', '.join(unknown)}")
        remaining = [parameter for name, parameter in parameters.items() if name not in strategies]

        def once(fixtures: dict[str, Any], frozen: dict[str, Any], example: dict[str, Any]) -> None:
            __tracebackhide__ = True
            seed = _reseed(fingerprint(frozen))
            if "rng" in parameters and "rng" not in strategies:
                import numpy

                fixtures = fixtures | {"rng": numpy.random.default_rng(seed)}
            test(**fixtures, **example)

        def run(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            fixtures = inspect.Signature(remaining).bind(*args, **kwargs).arguments
            _Search(functools.partial(once, fixtures), drawn, examples).run()

        def run_example(submission: Any, example: dict[str, Any], **fixtures: Any) -> None:
            """Run the test once, on these drawn arguments."""
            frozen = freeze(example)
            once({"submission": submission, **fixtures}, frozen, thaw(frozen))

        functools.update_wrapper(run, test)
        # pytest takes parameters for fixtures: it must see neither the drawn ones nor the function that has them.
        del run.__wrapped__  # type: ignore[attr-defined]
        run.__signature__ = inspect.Signature(remaining)  # type: ignore[attr-defined]
        run.run_example = run_example  # type: ignore[attr-defined]
        run.strategies = strategies  # type: ignore[attr-defined]
        return cast(PropertyTest, run)

    return decorate


def _reseed(salt: int) -> int:
    """Seed every global generator in use from the current seed and the example."""
    seed = (current_seed() * 1_000_003 + salt) % 2**32
    random.seed(seed)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed(seed)
    if torch is not None:
        torch.default_generator.manual_seed(seed)
    return seed


class _Falsified(Exception):
    """Tells hypothesis that an example fails; the failure itself is kept by the search."""


class _Enough(BaseException):
    """Ends a search at once: a BaseException passes through hypothesis."""


def _aspect(error: Exception) -> tuple[object, ...]:
    """What went wrong, roughly. Shrinking must not slip from one fault to another."""
    if isinstance(error, CheckFailed):
        return CheckFailed, error.aspect
    return type(error), getattr(error, "kind", "")


class _Search:
    """One run of a property test: draws, remembers the smallest failure, and knows when to stop."""

    def __init__(
        self, once: Callable[[dict[str, Any], dict[str, Any]], None], drawn: SearchStrategy[Any], examples: int
    ) -> None:
        self.once = once
        self.drawn = drawn
        self.examples = examples
        self.aspect: tuple[object, ...] | None = None
        self.best: tuple[tuple[int, int], dict[str, Any], Exception] | None = None
        self.calls_left = SHRINK_CALLS
        self.deadline = 0.0

    def run(self) -> None:
        __tracebackhide__ = True
        flaky = False
        try:
            self.hypothesis_test()()
        except (_Enough, _Falsified):
            pass
        except Flaky:
            # Without a failure of ours the strategies themselves are not repeatable, which is the author's fault.
            if self.best is None:
                raise
            flaky = True
        if self.best is None:
            return
        _, frozen, error = self.best
        if flaky and not getattr(error, "fatal", False):
            error = CheckFailed(
                "gave different answers for the same call",
                got=getattr(error, "got", ""),
                expected=getattr(error, "expected", ""),
                where=f"the first time: {getattr(error, 'message', error)}",
                call=getattr(error, "call", "") or "",
                aspect="flaky",
            )
        error.example = thaw(frozen)  # type: ignore[attr-defined]
        raise error

    def hypothesis_test(self) -> Callable[[], None]:
        test = hypothesis.given(self.drawn)(self.attempt_as_function())
        test = hypothesis.seed(current_seed())(test)
        return hypothesis.settings(
            max_examples=self.examples,
            database=None,
            deadline=None,
            phases=(Phase.explicit, Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
            report_multiple_bugs=False,
            print_blob=False,
        )(test)

    def attempt_as_function(self) -> Callable[..., None]:
        def attempt(example: dict[str, Any]) -> None:
            self.attempt(example)

        return attempt

    def attempt(self, example: dict[str, Any]) -> None:
        if self.aspect is not None:
            self.calls_left -= 1
            if self.calls_left < 0 or time.monotonic() > self.deadline:
                raise _Enough
        # The test may change what it was given.
        frozen = freeze(example)
        try:
            self.once(frozen, example)
        except HypothesisException:
            raise
        except Exception as error:
            if getattr(error, "fatal", False):
                self.best = (0, 0), frozen, error
                raise _Enough from None
            if self.aspect is None:
                self.aspect = _aspect(error)
                self.deadline = time.monotonic() + SHRINK_SECONDS
            elif _aspect(error) != self.aspect:
                return
            weight = size(frozen), len(render(thaw(frozen)))
            if self.best is None or weight <= self.best[0]:
                self.best = weight, frozen, error
            raise _Falsified from None
