"""The part of a writer of plans that the languages have in common."""

from abc import abstractmethod
from typing import ClassVar

from streamsim.code.plans import ROUNDS_UNTIMED, VERIFIED, Array, ChunkKernels, CodePlan, Steps
from streamsim.code.templates import Parts, fitted


class Writer(Steps):
    """A writer of a plan in a language. Its texts have places for the {name} of an array, and for other words."""

    name: str  # of the language
    template: str
    comment: str
    constant: str  # with this {name} and {value}
    cut: str  # of {size} floats into chunks of whole units, of {unit} floats
    heads: str  # of the buffers that hold the chunks called {name}
    new: ClassVar[dict[str, str]]  # by place, or "resident": a new array of {size} floats
    random: str  # random numbers for an array on the host
    saved: str  # the content of an array on the host
    fetched: str  # the content of an array on the card
    cleared: str  # an array of the card, before each run
    spoilt: str  # one of the host, with this {value}
    not_a_number: str
    restored: str
    event: str
    events: str  # {number} of them
    streams: ClassVar[dict[str, str]]  # by kind: a new stream

    def __init__(self, plan: CodePlan) -> None:
        self.plan, self.timed = plan, plan.timed_kernels
        self.number = "streams" if "streams" in plan.defaults else str(plan.streams)

    def text(self) -> str:
        """Return the program."""
        return fitted(self.lines_of, self.template, self.common_parts() | self.parts())

    @staticmethod
    @abstractmethod
    def lines_of(line: str) -> list[str]:
        """Return a line, broken if it is too long."""

    @abstractmethod
    def parts(self) -> Parts:
        """Return the parts of the template that the language writes in its own way."""

    @abstractmethod
    def launched(self, kernels: ChunkKernels, k: int, is_first: bool) -> str:
        """Return a launch of kernel k of a chunk; ``is_first``: of the chunk's first kernel, the first one."""

    def common_parts(self) -> Parts:
        plan, timed = self.plan, self.timed
        what = "Copies in, kernels and copies out, {}" if plan.is_pattern else "Copies and kernels, call by call: {}"
        measures = "The program measures it at its start: without --work it takes about KERNELS_S."
        return {
            "summary": what.format(plan.title),
            "constants": self._constants(),
            "measured": [f"{self.comment} {measures}"] if timed else [],
            "launches": self._launches(plan.kernels) if plan.kernels else [],
            "cuts": self._cuts(),
            "memory": [line for array in plan.memory for line in self._made(array)],
            "events": [
                self.let.format(name=name, value=(self.events if number else self.event).format(number=number))
                for name, number in plan.events.items()
            ],
            "issue": plan.issue(self),
            "synchronise": self.synchronise,
            "fresh": [line for array in plan.memory for line in self._fresh(array)],
            "kernels_alone": timed.issue(self) if timed else [],
            "number": self.number,
            "verified": str(VERIFIED),
            "name": f"{plan.title if plan.is_pattern else 'schedule'} in {self.name}",
        }

    def _constants(self) -> list[str]:
        sizes = [self.constant.format(name=name, value=floats) for name, floats in self.plan.sizes.items()]
        lines = [f"{self.comment} Floats of arrays.", *sizes] if sizes else []
        if self.timed:
            seconds = self.constant.format(name="KERNELS_S", value=f"{self.timed.seconds:.6g}")
            lines += [f"{self.comment} Seconds of {self.timed.words}.", seconds]
        return lines

    def defaults(self, unknown_rounds: str) -> dict[str, str]:
        """Return the arguments of the program, and their default values."""
        rounds = unknown_rounds if self.timed else str(ROUNDS_UNTIMED)
        found = {name: str(value) for name, value in self.plan.defaults.items()} | {"repeat": "10"}
        return found | ({"work": rounds} if self.plan.kernels else {})

    def each(self, array: Array, call: str) -> list[str]:
        """Return the call for an array, or for each of its buffers."""
        if not array.has_slots:
            return [call.format(name=array.name)]
        return self.block(self.for_each.format(name=array.name), [call.format(name="d")])

    def _launches(self, kernels: ChunkKernels) -> list[str]:
        lines: list[str] = []
        for k, kernel in enumerate(kernels.calls):
            first = [self.launched(kernels, 0, is_first=True)] if k == 0 else []
            later, again = [self.launched(kernels, k, is_first=False)], kernel.launches - len(first)
            lines += [f"{self.comment} {kernel.words}", *first]
            lines += later * again if again < 2 else self.loop("_", "0", str(again), later)
        return lines

    def _cuts(self) -> list[str]:
        plan = self.plan
        values = {cut.name: self.cut.format(size=cut.size, unit=cut.unit) for cut in plan.cuts}
        if "buffers" in plan.defaults:
            parts = dict.fromkeys(array.size.partition("[")[0] for array in plan.memory if array.has_slots)
            values |= {part.replace("part", "head", 1): self.heads.format(name=part) for part in parts}
            if "streams" in plan.defaults:
                values["hands_over"] = "buffers % streams != 0"
        lines = [self.let.format(name=name, value=value) for name, value in values.items()]
        return [f"{self.comment} How the arrays are cut into chunks.", *lines, ""] if lines else []

    def _is_both(self, array: Array) -> bool:
        """Return whether the program reads the array on the host and writes its results there."""
        return array.start == "random" and array.name in self.plan.results

    def _made(self, array: Array) -> list[str]:
        """Return the lines that make an array."""
        lines = self.new_array(array, self.new["resident" if array.start == "resident" else array.place])
        if array.start == "random":
            lines.append(self.random.format(name=array.name))
        if self._is_both(array):
            lines.append(self.let.format(name=f"start_{array.name}", value=self.saved.format(name=array.name)))
        return lines

    @abstractmethod
    def new_array(self, array: Array, new: str) -> list[str]:
        """Return the lines that make an array as ``new`` does."""

    def _fresh(self, array: Array) -> list[str]:
        """Return the lines that reset an array before a run."""
        if array.place == "device":
            return [] if array.start == "resident" else self.each(array, self.cleared)
        if array.start == "random":
            return [self.restored.format(name=array.name)] if self._is_both(array) else []
        value = self.not_a_number if array.start == "nothing" else "-1"
        return [self.spoilt.format(name=array.name, value=value)]

    def results(self) -> list[tuple[Array, str]]:
        """Return the arrays that are compared, each with the text of its content."""
        at = {array.name: array for array in self.plan.memory}
        return [(at[name], self.fetched if at[name].place == "device" else self.saved) for name in self.plan.results]
