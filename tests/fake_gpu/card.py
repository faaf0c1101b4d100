"""The card: every asynchronous call becomes a node that waits for what CUDA's rules make it wait for.

That is the call before it in its stream, events, and the legacy default stream. Nodes run when the host synchronises,
in a *random* order that respects only those rules: so a wait that is missing shows as wrong output. When a node ends on
the clock does not depend on that order.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

CALL_NS, WORK_NS = 1000, 10_000
LEGACY, FIRST_STREAM, FIRST_EVENT, FIRST_GRAPH = 0x0900, 0x1000, 0x2000, 0x4000
Call = tuple[Any, ...]


class FakeError(RuntimeError):
    """Stands for CuPy's CUDARuntimeError."""


class Clock:
    """Nanoseconds; calling it reads them. Only the card's own calls and work move it."""

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns

    def seconds(self) -> float:
        return self.now_ns * 1e-9

    def take(self, ns: int) -> int:
        """When what takes so long begins."""
        self.now_ns += ns
        return self.now_ns - ns


class Node:
    """Work on the card: what it does, what it waits for, when it ends, and the captured graph that it is part of."""

    def __init__(self, work: Callable[[], None], after: list["Node"], end_ns: int, graph: object = None) -> None:
        self.work, self.after, self.end_ns, self.graph, self.done = work, after, end_ns, graph, False

    @property
    def is_ready(self) -> bool:
        """Whether all that it waits for is done."""
        return all(earlier.done for earlier in self.after)


def nothing() -> None:
    """The work of an event, or of the end of a graph."""


class Card:
    """``log``: the calls of the host, in the words of the face that made them. ``current``: the libraries' stream."""

    def __init__(self, seed: int = 0, now_ns: int = 0) -> None:
        self.log: list[Call] = []
        self.clock = Clock(now_ns)
        self.current = LEGACY
        self.streams: dict[int, str] = {LEGACY: "legacy"}  # kinds, in the order in which they were made
        self.events: dict[int, Node | None] = {}  # as last recorded
        self._last: dict[int, Node] = {}  # of each stream
        self._pending: list[Node] = []
        self._graph: list[Node] | None = None  # that is being captured
        self._capturing: set[int] = set()  # streams
        self._graphs: dict[int, list[Node]] = {}
        self._rng = random.Random(seed)

    def called(self, *call: Any) -> None:
        """Every call takes its time."""
        self.log.append(call)
        self.clock.take(CALL_NS)

    def stream(self, kind: str) -> int:
        made = FIRST_STREAM + len(self.streams)
        self.streams[made] = kind
        return made

    def number(self, stream: int) -> int:
        """0 is the legacy stream; the others are numbered in the order in which they were made."""
        return list(self.streams).index(stream)

    def event(self) -> int:
        made = FIRST_EVENT + len(self.events)
        self.events[made] = None
        return made

    def add(self, stream: int, work: Callable[[], None], also: Iterable[Node] = (), took_ns: int = 0) -> Node:
        """Work in a stream, which may also wait for nodes of others."""
        before = [stream]
        if self._graph is not None:
            assert stream in self._capturing, "work in a stream that is no part of the capture"
        elif self.streams[stream] == "legacy":
            before += [other for other, kind in self.streams.items() if kind == "blocking"]
        elif self.streams[stream] == "blocking":
            before.append(LEGACY)
        after = [*also, *(self._last[other] for other in before if other in self._last)]
        end_ns = max([self.clock(), *(node.end_ns for node in after)]) + took_ns
        self._last[stream] = Node(work, after, end_ns, self._graph)
        (self._pending if self._graph is None else self._graph).append(self._last[stream])
        return self._last[stream]

    def record(self, event: int, stream: int) -> None:
        self.events[event] = self.add(stream, nothing)

    def wait(self, stream: int, event: int) -> None:
        node = self.events[event]
        if self._graph is None:
            self._refuse_captured(node)
        elif node is None or node.graph is not self._graph:
            raise FakeError("dependency created on uncaptured work in another stream")
        elif stream not in self._capturing:
            self._join_capture(stream)
        if node is not None:
            self.add(stream, nothing, [node])

    def synchronise(self, stream: int | None = None, event: int | None = None) -> None:
        """Wait for a stream, an event, or for all."""
        self.refuse_capture()
        if stream is None and event is None:
            self.finish(None)
            return
        node = self._last.get(stream) if event is None else self.events[event]  # type: ignore[arg-type]
        if event is not None:
            self._refuse_captured(node)
        if node is not None:
            self.finish(node)

    def refuse_capture(self) -> None:
        if self._graph is not None:
            raise FakeError("operation not permitted when stream is capturing, so transfers are disallowed")

    @staticmethod
    def _refuse_captured(node: Node | None) -> None:
        if node is not None and node.graph is not None:
            raise FakeError("operation not permitted on an event last recorded in a capturing stream")

    def finish(self, target: Node | None) -> None:
        """Run pending nodes in a random order until ``target`` (None: all) is done."""
        ends = [self.clock(), *(node.end_ns for node in (self._last.values() if target is None else [target]))]
        self.clock.now_ns = max(ends)
        followers: dict[int, list[Node]] = {}
        for node in self._pending:
            for earlier in set(map(id, node.after)):
                followers.setdefault(earlier, []).append(node)
        ready = [node for node in self._pending if node.is_ready]
        try:
            while ready and not (target is not None and target.done):
                node = ready.pop(self._rng.randrange(len(ready)))
                node.work()
                node.done = True
                ready += [other for other in followers.get(id(node), ()) if other.is_ready]
        finally:
            self._pending = [node for node in self._pending if not node.done]

    # Graphs

    def begin_capture(self, stream: int, _mode: int = 0) -> None:
        assert not self._pending, "captured while the card was busy"
        self._graph = []
        self._join_capture(stream)

    def _join_capture(self, stream: int) -> None:
        self._capturing.add(stream)
        self._last.pop(stream, None)  # which is done

    def end_capture(self, stream: int) -> int:
        nodes, streams = self._graph, self._capturing
        assert nodes is not None
        last = {other: self._last.pop(other) for other in streams if other in self._last}
        self._graph, self._capturing = None, set()
        joined = set(map(id, _ancestors(last[stream])))
        if any(id(node) not in joined for node in last.values()):
            raise FakeError("capture was not ended: unjoined work")
        return self.graph(nodes)

    def graph(self, nodes: list[Node]) -> int:
        made = FIRST_GRAPH + len(self._graphs)
        self._graphs[made] = nodes
        return made

    def launch_graph(self, graph: int, stream: int) -> None:
        begin = self.add(stream, nothing)
        copies: dict[int, Node] = {}
        for node in self._graphs[graph]:
            after = [copies[id(earlier)] for earlier in node.after if id(earlier) in copies] or [begin]
            copies[id(node)] = Node(node.work, after, begin.end_ns)
        self._pending += copies.values()
        self.add(stream, nothing, copies.values())


def _ancestors(node: Node) -> Iterator[Node]:
    seen: set[int] = set()
    stack = [node]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            stack += node.after
