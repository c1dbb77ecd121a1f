"""Arguments after a call: brought to the state that the call left them in, where the exercise lets it change them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from grader.judge.call import Call
from grader.judge.errors import ArgumentChanged
from grader.worker.wire import Packer, Unpacker, WireError
from grader.worker.wire.generator_state import state_from_plain

if TYPE_CHECKING:
    from grader.judge.proxies import JudgeSide


def write_back(
    side: JudgeSide, reply: dict[str, Any], packer: Packer, call: Call, allowed_to_change: tuple[str, ...]
) -> None:
    """Applies the changes that the worker reports; `packer` has packed the arguments before the call.

    Raises:
        ArgumentChanged: An argument was changed that is not in `allowed_to_change`. Random generators always may be.
    """
    if "changed" not in reply and "changed_tree" not in reply:
        return
    arguments = _named(side, call)
    changed: list[str] = []
    for index, content in reply.get("changed", {}).items():
        owner = packer.owners[index]
        if type(owner).__name__ == "Generator":
            _advance(owner, content)
            continue
        changed += _holders(side, arguments, packer.spans[index])
        if all(name in allowed_to_change for name in changed):
            _overwrite(owner, content)
    if "changed_tree" in reply:
        new_args, new_kwargs = Unpacker(side, reply["changed_tree_buffers"]).unpack(reply["changed_tree"])
        news = [*new_args, *(new_kwargs[name] for name in call.kwargs)]
        for (name, old), new in zip(arguments, news, strict=False):
            if _differ(side, old, new):
                changed.append(name)
                if name in allowed_to_change and isinstance(old, list):
                    old[:] = new
                elif name in allowed_to_change and isinstance(old, dict):
                    old.clear()
                    old.update(new)
    for name in changed:
        if name not in allowed_to_change:
            raise ArgumentChanged(name, call)


def _named(side: JudgeSide, call: Call) -> list[tuple[str, Any]]:
    """(parameter, argument) in the order of the call."""
    names = side.parameter_names.get(call.name, [])
    positional = [names[i] if i < len(names) else f"argument {i + 1}" for i in range(len(call.args))]
    return [*zip(positional, call.args, strict=True), *call.kwargs.items()]


def _holders(side: JudgeSide, arguments: list[tuple[str, Any]], span: tuple[int, int]) -> list[str]:
    """Names of the arguments that hold this memory."""
    found = []
    for name, value in arguments:
        packer = Packer(side, grads=False)
        with contextlib.suppress(WireError):
            packer.pack(value)
        if span in packer.spans:
            found.append(name)
    return found


def _advance(generator: Any, state: bytes) -> None:
    """Brings a random generator to the state that the submission left it in."""
    if hasattr(generator, "bit_generator"):
        import msgpack
        import numpy

        generator.bit_generator.state = state_from_plain(msgpack.unpackb(state), numpy)
    else:
        import torch

        generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


def _differ(side: JudgeSide, old: Any, new: Any) -> bool:
    first, second = Packer(side, grads=False), Packer(side, grads=False)
    return first.pack(old) != second.pack(new) or first.buffers != second.buffers


def _overwrite(owner: Any, content: bytes) -> None:
    """Puts new bytes into a tensor's storage or an array's memory."""
    import numpy

    if hasattr(owner, "data_ptr"):
        import torch

        owner = torch.empty(0, dtype=torch.uint8).set_(owner).numpy()
    owner[:] = numpy.frombuffer(content, numpy.uint8)
