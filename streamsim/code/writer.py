"""The part of a writer of plans that the languages have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from streamsim.code.plans import ROUNDS_UNTIMED, VERIFIED, Array, ChunkKernels, CodePlan
from streamsim.code.steps import Phrases, Steps
from streamsim.code.templates import Parts, fitted


class Writer(ABC):
    """A writer of a plan in a language."""

    name: str  # of the language
    template: str
    phrases: ClassVar[Phrases]
    lines_of: Callable[[str], list[str]]  # breaks a line that is too long

    def __init__(self, plan: CodePlan) -> None:
        self.plan, self.timed, self.to = plan, plan.timed_kernels, Steps(self.phrases)
        self.number = "streams" if "streams" in plan.defaults else str(plan.streams)
        rounds = self.to.say("unknown rounds") if self.timed else str(ROUNDS_UNTIMED)
        self.defaults: dict[str, object] = {**plan.defaults, "repeat": 10} | ({"work": rounds} if plan.kernels else {})

    def text(self) -> str:
        """Return the program."""
        return fitted(type(self).lines_of, self.template, {**self.phrases, **self._common_parts(), **self.parts()})

    @abstractmethod
    def parts(self) -> Parts:
        """Return the parts of the template that the language writes in its own way."""

    @abstractmethod
    def launched(self, kernels: ChunkKernels, k: int, is_first: bool) -> str:
        """Return a launch of kernel k of a chunk; ``is_first``: of the chunk's first kernel, the first one."""

    def said(self, *lines: str) -> list[str]:
        """Return the lines as comments."""
        return [f"{self.to.say('comment')} {line}" for line in lines]

    def _common_parts(self) -> Parts:
        plan, timed, say = self.plan, self.timed, self.to.say
        what = "Copies in, kernels and copies out, {}" if plan.is_pattern else "Copies and kernels, call by call: {}"
        measures = "The program measures it at its start: without --work it takes about KERNELS_S."
        fixed = plan.is_pattern and "streams" not in plan.defaults
        return {
            "summary": what.format(plan.title),
            "constants": self._constants(),
            "measured": self.said(measures) if timed else [],
            "launches": self.launches(plan.kernels) if plan.kernels else [],
            "cuts": self._cuts(),
            "memory": [line for array in plan.memory for line in self._made(array)],
            "events": [
                say("let", name=name, value=say("events" if number else "event", number=number))
                for name, number in plan.events.items()
            ],
            "issue": plan.issue(self.to),
            "fresh": [line for array in plan.memory for line in self._fresh(array)],
            "kernels_alone": timed.issue(self.to) if timed else [],
            "number": self.number,
            "verified": str(VERIFIED),
            "found": say("fixed streams", number=self.number) if fixed else "",
            "too_many": say("too many", most=plan.most_chunks) if plan.is_pattern else "",
            "hint": say("hint", most=plan.most_chunks) if plan.is_pattern else "",
            "name": f"{plan.title if plan.is_pattern else 'schedule'} in {self.name}",
        }

    def _constants(self) -> list[str]:
        sizes = [self.to.say("constant", name=name, value=floats) for name, floats in self.plan.sizes.items()]
        lines = [*self.said("Floats of arrays."), *sizes] if sizes else []
        if self.timed:
            seconds = self.to.say("constant", name="KERNELS_S", value=f"{self.timed.seconds:.6g}")
            lines += [*self.said(f"Seconds of {self.timed.words}."), seconds]
        return lines

    def launches(self, kernels: ChunkKernels) -> list[str]:
        """Return the launches of a chunk, with comments."""
        lines: list[str] = []
        for k, kernel in enumerate(kernels.calls):
            first = [self.launched(kernels, 0, is_first=True)] if k == 0 else []
            later, again = [self.launched(kernels, k, is_first=False)], kernel.launches - len(first)
            lines += [*self.said(kernel.words), *first]
            lines += later * again if again < 2 else self.to.loop("_", str(again), later)
        return lines

    def _cuts(self) -> list[str]:
        plan, say = self.plan, self.to.say
        values = {cut.name: say("cut", size=cut.size, unit=cut.unit) for cut in plan.cuts}
        if "buffers" in plan.defaults:
            parts = dict.fromkeys(array.size.partition("[")[0] for array in plan.memory if array.is_ring)
            values |= {part.replace("part", "head", 1): say("heads", name=part) for part in parts}
            if "streams" in plan.defaults:
                values["hands_over"] = "buffers % streams != 0"
        lines = [say("fewer", name=name) for name in ("streams", "buffers") if name in plan.defaults]
        lines += [say("let", name=name, value=value) for name, value in values.items()]
        return [*self.said("How the arrays are cut into chunks."), *lines, ""] if lines else []

    def _is_both(self, array: Array) -> bool:
        """Return whether the program reads the array on the host and writes its results there."""
        return array.start == "random" and array.name in self.plan.results

    def _made(self, array: Array) -> list[str]:
        """Return the lines that make an array."""
        say, name = self.to.say, array.name
        kind = "resident" if array.start == "resident" else array.place
        new = say(f"new {kind}", name="d" if array.is_ring else name, size=array.size)
        lines = say("ring" if array.is_ring else "array", name=name, size=array.size, new=new).splitlines()
        lines += [say("random", name=name)] if array.start == "random" else []
        saved = say("let", name=f"start_{name}", value=say("saved", name=name))
        return [*lines, *([saved] if self._is_both(array) else [])]

    def each(self, array: Array, phrase: str) -> list[str]:
        """Return the phrase for an array, or for each of its buffers."""
        if not array.is_ring:
            return [self.to.say(phrase, name=array.name)]
        return self.to.block(self.to.say("each", name=array.name), [self.to.say(phrase, name="d")])

    def _fresh(self, array: Array) -> list[str]:
        """Return the lines that reset an array before a run."""
        if array.place == "device":
            return [] if array.start == "resident" else self.each(array, "cleared")
        if array.start == "random":
            return self.each(array, "restored") if self._is_both(array) else []
        value = self.to.say("not a number") if array.start == "nothing" else "-1"
        return [self.to.say("spoilt", name=array.name, value=value)]

    def results(self) -> list[str]:
        """Return the texts that add the results to the output."""
        texts, at = [], {array.name: array for array in self.plan.memory}
        for array in map(at.__getitem__, self.plan.results):
            phrase, one = ("result ring", "d") if array.is_ring else ("result", array.name)
            content = self.to.say("fetched" if array.place == "device" else "saved", name=one)
            texts.append(self.to.say(phrase, name=array.name, content=content))
        return texts
