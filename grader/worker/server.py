"""What the worker does with a message: load a submission, call it, report what came of it.

Everything here runs beside untrusted code. Nothing that it says decides a verdict by itself: the judge compares values.
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import linecache
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from grader.worker import own_code, wire
from grader.worker.inspection import attribute, crosses_by_value, method_names, named_arguments, public_names
from grader.worker.judge_objects import JudgeObject, stand_in
from grader.worker.probes import remember_threads
from grader.worker.probes.pause import paused
from grader.worker.raised import describe
from grader.worker.wire import OBJECT, RECORD, Packer, Unpacker

Ask = Callable[[bytes], bytes]
"""Sends the judge a message and returns its answer (handling what the judge asks meanwhile)."""


class Server:
    """Holds one submission and answers the judge's messages about it."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._lock = threading.RLock()
        self._objects: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._next = 0
        self._graphs: dict[int, tuple[list[Any], list[Any]]] = {}
        self._module: types.ModuleType | None = None
        self._filename = ""
        self._guard: Any = None
        remember_threads()

    # -- wire.Side: objects that stay here ------------------------------------------------------------------------

    def export(self, value: Any) -> tuple[int, Any]:
        """A callback goes back as itself, a plain dataclass by value, anything else as a numbered handle."""
        if isinstance(value, JudgeObject):
            return OBJECT, value._payload
        by_value = not isinstance(value, Handed)
        if not by_value:
            value = value.value
        kind = type(value)
        if by_value and dataclasses.is_dataclass(value) and not isinstance(value, type) and crosses_by_value(kind):
            names = [field.name for field in dataclasses.fields(value)]
            present = [name for name in names if hasattr(value, name)]
            return RECORD, [kind.__name__, present, [getattr(value, name) for name in present]]
        number = self._numbers.get(id(value))
        if number is None:
            number = self._next
            self._next += 1
            self._objects[number] = value
            self._numbers[id(value)] = number
        return OBJECT, ["worker", number, kind.__name__, method_names(value)]

    def resolve(self, payload: list[Any]) -> Any:
        """The submission's own object, or a proxy of the judge's."""
        if payload[0] == "worker":
            return self._objects[payload[1]]
        return stand_in(self, payload)

    def record(self, type_name: str, fields: dict[str, Any]) -> Any:
        """An instance of one of the submission's dataclasses, without running its __init__ again."""
        kind = getattr(self._module, type_name, None)
        if not isinstance(kind, type):
            raise wire.WireError(f"no class {type_name} in the submission")
        instance: Any = object.__new__(kind)
        for name, value in fields.items():
            object.__setattr__(instance, name, value)
        return instance

    def foreign(self, type_name: str, why: str) -> Any:
        """The judge sends plain values only."""
        raise wire.WireError(f"a {type_name} was sent to the submission ({why})")

    # -- messages ---------------------------------------------------------------------------------------------------

    def handle(self, message: bytes) -> bytes:
        """Answers one message of the judge."""
        tree, buffers = wire.unframe(message)
        unpacker = Unpacker(self, buffers)
        operation, *rest = unpacker.unpack(tree)
        reply: dict[str, Any] = {}
        packer = Packer(self, graph="torch" in sys.modules)
        try:
            value = getattr(self, f"_do_{operation}")(reply, unpacker, *rest)
            reply["value"] = packer.pack(value)
        except _Raised as raised:
            reply["error"] = raised.description
        except wire.WireError as error:
            reply["error"] = describe(TypeError(f"the result cannot be handed over: {error}"), self._filename)
        except BaseException as error:
            reply["error"] = describe(error, self._filename)
        if packer.outputs:
            self._keep_graph(reply, packer, unpacker)
        if "value" in reply:
            shared = _shared(packer, unpacker)
            if shared:
                reply["shared"] = shared
        return wire.frame(packer.pack(["reply", reply]), packer.buffers)

    def _keep_graph(self, reply: dict[str, Any], packer: Packer, unpacker: Unpacker) -> None:
        outputs = list(packer.outputs)
        reply["outputs"] = [packer.tensor_payload(tensor) for tensor in outputs]
        reply["graph"] = self._next
        self._graphs[self._next] = (outputs, list(unpacker.leaves))
        self._next += 1

    def _do_load(self, reply: dict[str, Any], unpacker: Unpacker, options: dict[str, Any]) -> dict[str, str]:
        """Runs the submission's source as a module; {public name: "function" | "class" | "value"}."""
        filename, source = options["filename"], options["source"]
        self._filename = filename
        name = options["module"]
        if options.get("isolated", True):
            _hide_the_grader()
            own_code.watch(filename)
        if options["kind"] == "triton":
            from grader.worker.kernels.interpret import prepare

            prepare()
        # The grader counts and reports beside the submission: nobody's exercise asks for a hand in that.
        forbidden = [*options["forbid"], *(["grader"] if options.get("isolated", True) else [])]
        if forbidden:
            from grader.worker import forbid

            self._guard = forbid.install(forbidden, filename)
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        module = types.ModuleType(name)
        module.__file__ = filename
        self._module = module
        sys.modules[name] = module
        self._run(reply, lambda: _execute(source, filename, module, options["kind"]))
        return public_names(module)

    def _do_get(self, reply: dict[str, Any], unpacker: Unpacker, target: Any, name: str) -> Any:
        return self._run(reply, lambda: getattr(self._module if target is None else target, name))

    def _do_set(self, reply: dict[str, Any], unpacker: Unpacker, target: Any, name: str, value: Any) -> None:
        self._run(reply, lambda: setattr(target, name, value))

    def _do_call(
        self, reply: dict[str, Any], unpacker: Unpacker, target: Any, name: str, packed: bytes, options: dict[str, Any]
    ) -> Any:
        args, kwargs = unpacker.unpack(packed)

        def call() -> Any:
            function = attribute(self._module if target is None else target, name)
            if not options:
                return function(*args, **kwargs)
            with self._measuring(reply, options, function, args, kwargs) as returned:
                value = function(*args, **kwargs)
                returned(value)
                return value

        try:
            return self._run(reply, call)
        finally:
            self._note_changes(reply, unpacker, packed, args, kwargs)

    def _note_changes(
        self, reply: dict[str, Any], unpacker: Unpacker, packed: bytes, args: Any, kwargs: dict[str, Any]
    ) -> None:
        """Tells the judge which arguments the call changed: packing is canonical, so other bytes are other values."""
        after = Packer(self, grads=False)
        try:
            tree = after.pack([list(args), kwargs])
            if tree == packed and after.buffers == unpacker.buffers[: len(after.buffers)]:
                return
            # Perhaps only the trip itself has normalised something: compare with a second, untouched arrival.
            before = Packer(self, grads=False)
            untouched = before.pack(Unpacker(self, unpacker.buffers).unpack(packed))
        except wire.WireError:
            return
        if untouched != tree:
            reply["changed_tree"] = tree
            reply["changed_tree_buffers"] = after.buffers
            return
        changed = {
            index: new for index, (old, new) in enumerate(zip(before.buffers, after.buffers, strict=True)) if old != new
        }
        if changed:
            reply["changed"] = changed

    def _do_next(
        self, reply: dict[str, Any], unpacker: Unpacker, iterator: Iterator[Any], options: dict[str, Any]
    ) -> tuple[bool, Any]:
        def advance() -> tuple[bool, Any]:
            with self._measuring(reply, options, None, (), {}) as returned:
                try:
                    value = next(iterator)
                except StopIteration:
                    return False, None
                returned(value)
                return True, value

        step: tuple[bool, Any] = self._run(reply, advance)
        return step

    def _do_many(
        self, reply: dict[str, Any], unpacker: Unpacker, name: str, calls: list[Any], options: dict[str, Any]
    ) -> list[Any]:
        def call_all() -> list[Any]:
            function = attribute(self._module, name)
            with self._measuring(reply, options, None, (), {}):
                return [function(*args, **kwargs) for args, kwargs in calls]

        results: list[Any] = self._run(reply, call_all)
        return results

    def _do_prop(self, reply: dict[str, Any], unpacker: Unpacker, source: str, name: str, args: Any) -> Any:
        """Builds a test's helper here: an object that holds no secret, so that calls to it need no round trip."""
        namespace: dict[str, Any] = {"__name__": "prop"}
        exec(compile(source, "<prop>", "exec", dont_inherit=True), namespace)
        positional, named = args
        return Handed(namespace[name](*positional, **named))

    def _do_backward(
        self, reply: dict[str, Any], unpacker: Unpacker, graph: int, gradients: list[Any], options: dict[str, Any]
    ) -> Any:
        from grader.worker.seeding import backward

        outputs, leaves = self._graphs[graph]
        for leaf in leaves:
            leaf.grad = None
        pairs = [
            (output, gradient) for output, gradient in zip(outputs, gradients, strict=True) if gradient is not None
        ]

        def seeded() -> None:
            with self._measuring(reply, options, None, (), {}):
                backward(*zip(*pairs, strict=True))

        if pairs:
            self._run(reply, seeded)
        return [None if leaf.grad is None else leaf.grad.detach() for leaf in leaves]

    def _do_release(self, reply: dict[str, Any], unpacker: Unpacker, objects: list[int], graphs: list[int]) -> None:
        for number in objects:
            value = self._objects.pop(number, None)
            self._numbers.pop(id(value), None)
        for number in graphs:
            self._graphs.pop(number, None)

    def _do_compile(self, reply: dict[str, Any], unpacker: Unpacker, name: str, packed: bytes) -> Any:
        """Compiles every launch of a call for sm_90 instead of running it; only in a worker without the interpreter."""
        from grader.worker.kernels.compile import compile_launches

        args, kwargs = unpacker.unpack(packed)
        function = attribute(self._module, name)
        return self._run(reply, lambda: compile_launches(lambda: function(*args, **kwargs), filename=self._filename))

    # -- around the submission's code ---------------------------------------------------------------------------------

    def _run(self, reply: dict[str, Any], work: Callable[[], Any]) -> Any:
        """Runs something of the submission's: whatever it raises becomes a description, what it printed is flushed."""
        guard = self._guard
        try:
            if guard is None or guard.is_idle:
                return work()
            with guard.active():
                return work()
        except BaseException as error:
            raise _Raised(describe(error, self._filename)) from None
        finally:
            if guard is not None and guard.hits:
                reply["forbidden"] = [str(hit) for hit in guard.hits]
                guard.hits.clear()
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()

    @contextlib.contextmanager
    def _measuring(
        self,
        reply: dict[str, Any],
        options: dict[str, Any],
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Iterator[Callable[[Any], None]]:
        """Opens what the judge asked for around one call: probes, warnings as errors. Yields a place for the result."""
        with contextlib.ExitStack() as stack:
            if options.get("warnings") == "error":
                stack.enter_context(warnings.catch_warnings())
                warnings.simplefilter("error")
                numpy = sys.modules.get("numpy")
                if numpy is not None:
                    stack.enter_context(numpy.errstate(divide="warn", over="warn", invalid="warn", under="ignore"))
            torch = sys.modules.get("torch")
            if options.get("no_grad") and torch is not None:
                stack.enter_context(torch.no_grad())
            returned: Callable[[Any], None] = _ignore
            if options.get("measure"):
                from grader.worker import probes

                measured: dict[str, Any] = {}
                # Registered first, so it runs last, when the probes have written their summaries.
                stack.callback(lambda: reply.update(measured={k: v for k, v in measured.items() if k != "value"}))
                arguments = named_arguments(function, args, kwargs)
                results = stack.enter_context(probes.opened(options["measure"], self._filename, arguments, measured))
                returned = partial(results.__setitem__, "value")
            yield returned

    def call_judge(self, payload: list[Any], method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function of the judge's, or a method of an object of its."""
        with self._lock:
            with paused():  # what packing does with tensors is no cost of the submission's
                packer = Packer(self)
                tree = packer.pack(["callback", payload[1], method, packer.pack([list(args), kwargs])])
                content = wire.frame(tree, packer.buffers)
            answer = self._ask(content)
            with paused():
                tree, buffers = wire.unframe(answer)
                _, ok, value = Unpacker(self, buffers).unpack(tree)
        if ok:
            return value
        names, message = value
        for name in names:
            kind = getattr(builtins, name, None)
            if isinstance(kind, type) and issubclass(kind, Exception):
                raise kind(message)
        raise RuntimeError(message)


class Handed:
    """Wraps a value that must go over as a handle even if it could go by value."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _Raised(BaseException):
    """Carries the description of what the submission raised past everything that might swallow it."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.description = description


def _execute(source: str, filename: str, module: types.ModuleType, kind: str) -> None:
    """The top level of a submission."""
    if kind in ("numpy", "python"):
        from grader.worker.probes.products import compiled

        code = compiled(source, filename, module.__dict__)
    else:
        # dont_inherit: the flags of this file (annotations) are not the submission's.
        code = compile(source, filename, "exec", dont_inherit=True)
    exec(code, module.__dict__)


def _ignore(value: Any) -> None:
    """Where nobody measures, nobody needs the result."""


def _hide_the_grader() -> None:
    """A submission that imports the judge or pytest has no business there; None makes the import fail."""
    for name in ("grader.judge", "grader.course", "grader.testing", "grader.cli", "pytest", "_pytest", "solutions"):
        sys.modules[name] = None  # type: ignore[assignment]


def _shared(packer: Packer, unpacker: Unpacker) -> list[tuple[int, int]]:
    """(buffer of the result, buffer of an argument) wherever the two are the same memory."""
    return [
        (index, other)
        for index, (low, high) in enumerate(packer.spans)
        for other, (start, end) in unpacker.spans.items()
        if low < end and start < high
    ]
