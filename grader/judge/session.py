"""The judge's end of the conversation with one worker."""

from __future__ import annotations

import contextlib
import functools
import inspect
import signal
import sys
import textwrap
import time
from typing import Any

from grader.judge.call import Call
from grader.judge.clock import Clock
from grader.judge.endings import how_it_ended, read_output, stuck_at
from grader.judge.errors import ForbiddenUsed, OutOfTime, SubmissionError, WorkerDied
from grader.judge.proxies import JudgeSide
from grader.judge.workers import CannotStart, Worker
from grader.judge.write_back import write_back
from grader.worker import wire
from grader.worker.channel import Channel, Closed, Loopback, TimeIsUp
from grader.worker.main import ANSWER, REPLY, REQUEST
from grader.worker.wire import Packer, Unpacker

CALLS_REMEMBERED = 400
"""How many outcomes of a check are kept to be compared with a mistake's."""


class Session:
    """A loaded submission in a worker (or, for --debug, in this process). Not thread-safe."""

    def __init__(
        self, channel: Channel | Loopback, worker: Worker | None, options: dict[str, Any], *, seconds: float
    ) -> None:
        self._channel = channel
        self.worker = worker
        self.options = options
        self._clock = Clock(worker, seconds)
        self.side = JudgeSide(self)
        self.calls: list[Call] = []
        self.measuring: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        self.call_options: dict[str, Any] = {}
        self.allowed_to_change: tuple[str, ...] = ()
        self._released: tuple[list[int], list[int]] = ([], [])
        self._abort: BaseException | None = None
        self.alive = True
        self.names: dict[str, str] = {}

    @classmethod
    def open(cls, worker: Worker, options: dict[str, Any], seconds: float) -> Session:
        """Loads a program in a worker. Raises what loading it raises; the worker has ended then."""
        session = cls(worker.channel, worker, options, seconds=seconds)
        try:
            session.load()
        except BaseException as error:
            if session.alive:
                error.output = session.output()  # type: ignore[attr-defined]
            session.close()
            raise
        return session

    def load(self, *, isolated: bool = True) -> None:
        """Runs the program's top level in the worker."""
        try:
            self.names = self.request("load", {**self.options, "isolated": isolated})
        except (SubmissionError, ForbiddenUsed, OutOfTime, WorkerDied):
            raise
        except Exception as error:
            # What a worker says may be anything; inside a check the check would fail, here nobody else catches it.
            raise WorkerDied(f"the process that runs your code sent nonsense ({error})", None) from error

    def compile(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compiles the launches of a call instead of running them."""
        packer = Packer(self.side, grads=False)
        packed = packer.pack([list(args), kwargs])
        return self._request(packer, None, ["compile", name, packed])

    def allow(self, seconds: float, until: float = float("inf")) -> None:
        """From now on the submission and the test may take this long; `until` is a time.monotonic() not to pass."""
        self._clock = Clock(self.worker, seconds, until)

    # -- what tests use, through Submission -------------------------------------------------------------------------

    def call(self, target: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function of the submission, or a method of one of its objects."""
        call = Call(name, args, kwargs)
        self.calls.append(call)
        if len(self.calls) > CALLS_REMEMBERED:
            del self.calls[0]
        packer = Packer(self.side, grads=False)
        packed = packer.pack([list(args), kwargs])
        options = self._options()
        try:
            value = self._request(packer, call, ["call", target, name, packed, options])
        except (SubmissionError, ForbiddenUsed) as error:
            call.outcome = error
            error.call = call
            raise
        call.outcome = value
        return value

    def advance(self, iterator: Any) -> Any:
        """(True, the next item) of an iterator of the submission's, or (False, None) at its end."""
        return self.request("next", iterator, self._options())

    def attribute_of(self, target: Any, name: str) -> Any:
        """Reads an attribute of one of the submission's objects, or a value of its module (target None)."""
        return self.request("get", target, name)

    def set_attribute(self, target: Any, name: str, value: Any) -> None:
        """Sets an attribute of one of the submission's objects."""
        self.request("set", target, name, value)

    def many(self, name: str, calls: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[Any]:
        """Many calls in one message."""
        call = Call(name, (f"{len(calls)} calls in one message",), {})
        self.calls.append(call)
        result: list[Any] = self.request(
            "many", name, [[list(args), kwargs] for args, kwargs in calls], self._options()
        )
        call.outcome = result
        return result

    def prop(self, kind: type, *args: Any, **kwargs: Any) -> Any:
        """An object of a test's class, made in the worker from the source of the class."""
        return self.request("prop", _source_of(kind), kind.__name__, [list(args), kwargs])

    def _options(self) -> dict[str, Any]:
        options = dict(self.call_options)
        torch = sys.modules.get("torch")
        if torch is not None and not torch.is_grad_enabled():
            options["no_grad"] = True
        wanted: dict[str, dict[str, Any]] = {}
        for probes, _ in self.measuring:
            for name, chosen in probes.items():
                # What one `with` block leaves out, another that is open too may want.
                known = wanted.get(name, chosen)
                wanted[name] = {option: value for option, value in known.items() if chosen.get(option) == value}
        if wanted:
            options["measure"] = wanted
        return options

    # -- messages ---------------------------------------------------------------------------------------------------

    def request(self, operation: str, *rest: Any) -> Any:
        """One message and its answer, as a value."""
        return self._request(Packer(self.side, grads=False), None, [operation, *rest])

    def _request(self, packer: Packer, call: Call | None, message: list[Any]) -> Any:
        if not self.alive:
            raise WorkerDied("the process that runs your code has ended", None)
        self._release()
        tree = packer.pack(message)
        tree, buffers = wire.unframe(self._exchange(wire.frame(tree, packer.buffers)))
        unpacker = Unpacker(self.side, buffers)
        kind, reply = unpacker.unpack(tree)
        if self._abort is not None:
            abort, self._abort = self._abort, None
            raise abort
        if kind != "reply" or not isinstance(reply, dict):
            raise WorkerDied("the process that runs your code sent nonsense", None)
        if reply.get("forbidden"):
            raise ForbiddenUsed(str(reply["forbidden"][0]))
        if "measured" in reply:
            for _, results in self.measuring:
                results.append(reply["measured"])
        if "error" in reply:
            raise SubmissionError.of(reply["error"])
        if call is not None:
            write_back(self.side, reply, packer, call, self.allowed_to_change)
        if "graph" in reply:
            unpacker.outputs = self._connect(reply, unpacker, packer)
        value = unpacker.unpack(reply["value"])
        if call is not None and "shared" in reply:
            call.shared = [unpacker.owners[index] for index, _ in reply["shared"] if index in unpacker.owners]
        return value

    def _exchange(self, content: bytes) -> bytes:
        if isinstance(self._channel, Loopback):
            return self._channel.ask(content)
        try:
            self._channel.send(REQUEST + content, self._clock.last)
            while True:
                message = self._clock.receive(self._channel)
                if message[:1] == REPLY:
                    return message[1:]
                self._channel.send(ANSWER + self.answer(message[1:]), self._clock.last)
        except TimeIsUp:
            raise self._out_of_time() from None
        except Closed:
            raise self._died() from None

    def answer(self, content: bytes) -> bytes:
        """Runs a callback for the worker. A check that fails inside it ends the call, whatever the submission does."""
        tree, buffers = wire.unframe(content)
        _, number, method, packed = Unpacker(self.side, buffers).unpack(tree)
        packer = Packer(self.side, grads=False)
        try:
            args, kwargs = Unpacker(self.side, buffers).unpack(packed)
            answer = ["answer", True, self.side.invoke(number, method, args, kwargs)]
            tree = packer.pack(answer)
        except Exception as error:
            if getattr(error, "is_verdict", False) and self._abort is None:
                self._abort = error
            names = [kind.__name__ for kind in type(error).__mro__]
            packer = Packer(self.side)
            tree = packer.pack(["answer", False, [names, str(error)]])
        return wire.frame(tree, packer.buffers)

    def _connect(self, reply: dict[str, Any], unpacker: Unpacker, packer: Packer) -> list[Any]:
        """Joins the results to the arguments in autograd's graph, so that backward crosses into the worker."""
        from grader.judge.gradients import connect

        raw = [unpacker.tensor(payload) for payload in reply["outputs"]]
        return connect(self, reply["graph"], raw, packer.leaves)

    def backward(self, graph: int, gradients: list[Any]) -> list[Any]:
        """The gradients of the leaves of one call."""
        result: list[Any] = self.request("backward", graph, gradients, self._options())
        return result

    def forget_graph(self, graph: int) -> None:
        """The judge no longer needs this call's graph."""
        self._released[1].append(graph)

    def forget_object(self, number: int) -> None:
        """The judge no longer holds this handle."""
        self._released[0].append(number)

    def _release(self) -> None:
        objects, graphs = self._released
        if len(objects) + len(graphs) < 64:
            return
        self._released = ([], [])
        packer = Packer(self.side)
        self._exchange(wire.frame(packer.pack(["release", objects, graphs]), []))

    # -- the end ----------------------------------------------------------------------------------------------------

    def output(self) -> str:
        """What was printed since the last time this was asked, as text, cut to the exercise's limit."""
        if self.worker is None:
            return ""
        return read_output(self.worker, self.options["output_kib"] * 1024)

    def _out_of_time(self) -> OutOfTime:
        assert self.worker is not None
        printed = self.output()
        with contextlib.suppress(CannotStart, AttributeError):
            self.worker.signal(signal.SIGUSR1)
            time.sleep(0.05)
        dump = self.output()
        self.close()
        return OutOfTime(stuck_at(dump, self.options["filename"], self.options["source"]), printed)

    def _died(self) -> WorkerDied:
        assert self.worker is not None
        status = self.worker.host.wait(self.worker.pid, 0.5)
        printed = self.output()
        self.close()
        return WorkerDied(how_it_ended(status), status, printed)

    def close(self) -> None:
        """Ends the worker."""
        if self.alive:
            self.alive = False
            if self.worker is not None:
                self.worker.end()


@functools.cache
def _source_of(kind: type) -> str:
    """The source of a test's class. inspect parses the whole file for it, too slow for every example of a property."""
    return textwrap.dedent(inspect.getsource(kind))
