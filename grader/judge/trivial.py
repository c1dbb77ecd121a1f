"""Trivial answers: programs that need no understanding, made from any solution. Every exercise must reject all of them.

Each wraps the solution's public functions and methods, so that results have the right type, shape and dtype, and only
the work is missing: zeros, the input handed back, the first answer again, a mean everywhere, fewer digits, no tail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grader.judge.submission import Submission

_WRAP = """

def _spoil(value, spoil, args):
    import dataclasses
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_spoil(item, spoil, args) for item in value)
    if type(value) is dict:
        return {key: _spoil(item, spoil, args) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{f.name: _spoil(getattr(value, f.name), spoil, args)
                                             for f in dataclasses.fields(value) if f.init})
    global _spoilt
    new = spoil(value, args)
    _spoilt += _is_changed(value, new)
    return new


def _kind(value):
    name = type(value).__name__
    return name if name in ("Tensor", "ndarray") else "number" if type(value) in (int, float) else "other"


def _zeros(value, args):
    return value * 0 if _kind(value) != "other" else value


def _identity(value, args):
    for argument in args:
        if type(argument) is type(value) and getattr(argument, "shape", ()) == getattr(value, "shape", ()):
            copied = {"ndarray": lambda: argument.copy(), "Tensor": lambda: argument.clone()}
            return copied.get(_kind(value), lambda: argument)()
    return value * 0 if _kind(value) != "other" else value


def _mean(value, args):
    if _kind(value) == "ndarray" and value.size and value.dtype.kind == "f":
        return (value * 0 + value.mean()).astype(value.dtype)
    if _kind(value) == "Tensor" and value.numel() and value.is_floating_point():
        return value * 0 + value.mean()
    return value


def _half(value, args):
    if _kind(value) == "ndarray" and value.dtype.kind == "f":
        return value.astype("float16").astype(value.dtype)
    if _kind(value) == "Tensor" and value.is_floating_point():
        import torch
        return value.to(torch.bfloat16 if value.dtype == torch.float16 else torch.float16).to(value.dtype)
    if type(value) is float:
        return float(f"{value:.3g}")
    return value


def _no_tail(value, args):
    if _kind(value) in ("ndarray", "Tensor") and len(value.shape) and value.shape[-1] > 1:
        value = value.copy() if _kind(value) == "ndarray" else value.clone()
        value[..., -1] = 0
    return value


_spoilt = 0


def _is_changed(old, new):
    if _kind(old) == "ndarray":
        return old.shape != new.shape or old.tobytes() != new.tobytes()
    if _kind(old) == "Tensor":
        import torch
        return old.shape != new.shape or not torch.equal(torch.nan_to_num(old), torch.nan_to_num(new))
    return _kind(old) == "number" and old != new and (old == old or new == new)


def _wrap(function, spoil, remembered):
    def answer(*args, **kwargs):
        if spoil is None:
            global _spoilt
            if function.__qualname__ not in remembered:
                remembered[function.__qualname__] = function(*args, **kwargs)
            else:
                _spoilt += 1
            return remembered[function.__qualname__]
        return _spoil(function(*args, **kwargs), spoil, args)
    return answer


_remembered = {}
for _name, _value in list(globals().items()):
    if _name.startswith("_") or getattr(_value, "__module__", None) != __name__:
        continue
    if type(_value).__name__ == "function":
        globals()[_name] = _wrap(_value, SPOIL, _remembered)
    elif isinstance(_value, type):
        for _method, _member in list(vars(_value).items()):
            if not _method.startswith("_") and type(_member).__name__ == "function":
                setattr(_value, _method, _wrap(_member, SPOIL, _remembered))
"""


@dataclass(frozen=True)
class Trivial:
    """A trivial answer to any exercise."""

    name: str
    about: str
    spoil: str
    of_numbers: bool = True
    """Whether it spoils numbers only, so that there is nothing to it where results are text or lists."""

    def apply(self, solution: str) -> str:
        """The program: the solution with its public functions spoilt."""
        return solution + _WRAP.replace("SPOIL", self.spoil)


ALL = (
    Trivial("zeros", "zeros of the right shape", "_zeros"),
    Trivial("identity", "an argument of the right shape, handed back", "_identity"),
    Trivial("mean", "the mean of the result everywhere", "_mean"),
    Trivial("first_again", "the first result again, whatever the arguments", "None", of_numbers=False),
    Trivial("lower_precision", "the result rounded to half precision", "_half"),
    Trivial("no_tail", "the last element of each row left out", "_no_tail"),
)


def has_spoilt(submission: Submission) -> bool:
    """Whether the program changed any result; if not (text, lists of ids), it is the solution itself and may pass."""
    return bool(submission.session.attribute_of(None, "_spoilt"))
