"""The steps of programs, as each language writes them: a language is a table of phrases with places for words.

- ``let``: the variable $name with its $value. ``constant``: the same, for all functions.
- ``record``, ``wait``: of the $event in the $stream; of the $stream for the $event.
- ``synchronise``: a wait of the host for the card, or for the stream or event called $name.
- ``host work``: of $seconds. ``rounds``: of a launch with this $weight, a share (0..1] of the most of any launch.
- ``h2d``, ``d2h``: a copy between the pieces $card and $host; with ``blocking``: the host waits for it.
- ``kernels``: the user's, with these $pieces of arrays. ``launch``: one of the stand-in, from $source to $target.
- ``part``: the floats of $name from $start up to $stop.
- ``cut``: $size floats in chunks of whole units of $unit floats. ``heads``: the parts of buffers that hold the chunks
  called $name.
- ``new pinned`` and others: a new array of $size floats; ``new resident``: on the card, with random numbers.
- ``array``, ``ring``: a variable $name for a $new array, or for a ring of buffers. ``each``: the head of a loop over
  its buffers, each called d.
- ``random``: random numbers for an array on the host. ``saved``, ``fetched``: its content; that of one on the card.
- ``cleared``, ``spoilt``, ``restored``: an array before each run: zeros on the card; a $value that is no result; its
  first content.
- ``result``: an array's $content, added to the output.
- ``event``, ``events``: a new one, and $number of them. ``stream legacy`` and others: a new one of this kind.
- ``equal``: a function that compares arrays. ``settled``: a line before outputs are compared.
- ``opened``, ``closed``: what follows the head of a block and ends it. ``within``: the head of calls in a $stream.
"""

from collections.abc import Mapping, Sequence
from string import Template
from textwrap import indent

from streamsim.program import Direction

Phrases = Mapping[str, str]

_PYTHON = {
    "comment": "#",
    "indent": "    ",
    "opened": ":",
    "closed": "",
    "loop": "for $name in range($end)",
    "loop from": "for $name in range($first, $end)",
    "if": "if $condition",
    "and": " and ",
    "let": "$name = $value",
    "constant": "$name = $value",
    "record": "$event.record($stream)",
    "wait": "$stream.wait_event($event)",
    "synchronise stream": "$name.synchronize()",
    "synchronise event": "$name.synchronize()",
    "host work": "host_work($seconds)",
    "rounds": "max(1, round($weight * work))",
    "kernels": "kernels($pieces, work)",
    "part": "$name[$start:$stop]",
    "cut": "cut($size, $unit, chunks)",
    "heads": "[slice(p.stop - p.start) for p in $name]",
    "each": "for d in $name",
    "fewer": "$name = min($name, chunks)",
    "array": "$name = $new",
    "ring": "$name = [$new for _ in range(buffers)]",
    "result": "$content",
    "result ring": "*($content for d in $name)",
    "too many": ' or given["chunks"] > $most',
    "hint": ", and at most $most chunks",
    "fixed streams": '"streams": $number,',
    "unknown rounds": "None",
}
CUPY = _PYTHON | {
    "within": "with $stream",
    "synchronise": "cp.cuda.Device().synchronize()",
    "h2d": "$card.set($host)",
    "h2d blocking": "$card.set($host)\n$stream.synchronize()",
    "d2h": "$card.get(out=$host, blocking=False)",
    "d2h blocking": "$card.get(out=$host)",
    "launch": "stand_in($source, $rounds, $target)",
    "new pinned": "cupyx.empty_pinned($size, np.float32)",
    "new pageable": "np.empty($size, np.float32)",
    "new device": "cp.empty($size, np.float32)",
    "new resident": "cp.asarray(RNG.random($size, np.float32))",
    "random": "RNG.random(out=$name, dtype=np.float32)",
    "saved": "$name.copy()",
    "fetched": "$name.get()",
    "cleared": "$name.fill(0)",
    "spoilt": "$name.fill($value)",
    "not a number": "np.nan",
    "restored": "$name[:] = start_$name",
    "event": "cp.cuda.Event(disable_timing=True)",
    "events": "[cp.cuda.Event(disable_timing=True) for _ in range($number)]",
    "stream non-blocking": "cp.cuda.Stream(non_blocking=True)",
    "stream blocking": "cp.cuda.Stream(non_blocking=False)",
    "stream legacy": "cp.cuda.Stream.null",
    "after": "$stream.wait_event($other.record())",
    "replay": "graph.launch, pool[0]",
    "equal": "np.array_equal",
    "settled": "",
}
CUPY_GRAPH = CUPY | {"h2d": "copy($card, $host)", "d2h": "copy($host, $card)"}  # set and get cannot be captured
PYTORCH = _PYTHON | {
    "within": "with torch.cuda.stream($stream)",
    "synchronise": "torch.cuda.synchronize()",
    "h2d": "$card.copy_($host, non_blocking=True)",
    "h2d blocking": "$card.copy_($host)",
    "d2h": "$host.copy_($card, non_blocking=True)",
    "d2h blocking": "$host.copy_($card)",
    "launch": "stand_in($source, $rounds, out=$target)",
    "new pinned": "torch.empty($size, pin_memory=True)",
    "new pageable": "torch.empty($size)",
    "new device": 'torch.empty($size, device="cuda")',
    "new resident": 'torch.rand($size, device="cuda")',
    "random": "$name.uniform_()",
    "saved": "$name.clone()",
    "fetched": "$name.cpu()",
    "cleared": "$name.zero_()",
    "spoilt": "$name.fill_($value)",
    "not a number": 'float("nan")',
    "restored": "$name.copy_(start_$name)",
    "event": "torch.cuda.Event()",
    "events": "[torch.cuda.Event() for _ in range($number)]",
    "stream non-blocking": "torch.cuda.Stream()",
    "stream legacy": "torch.cuda.default_stream()",
    "after": "$stream.wait_stream($other)",
    "replay": "graph.replay",
    "equal": "torch.equal",
    # The threads that compare arrays look for more work for some 5 ms. Beside 16 such threads, the host's calls take
    # 1.4 times as long.
    "settled": "torch.set_num_threads(1)  # those that compare outputs spin on beside the calls",
}
CUDA = {
    "comment": "//",
    "indent": "  ",
    "opened": " {",
    "closed": "}",
    "within": "",
    "loop": "for (int $name = 0; $name < $end; ++$name)",
    "loop from": "for (int $name = $first; $name < $end; ++$name)",
    "if": "if ($condition)",
    "and": " && ",
    "let": "auto $name = $value;",
    "constant": "constexpr auto $name = $value;",
    "record": "Check(cudaEventRecord($event, $stream));",
    "wait": "Check(cudaStreamWaitEvent($stream, $event));",
    "synchronise": "Check(cudaDeviceSynchronize());",
    "synchronise stream": "Check(cudaStreamSynchronize($name));",
    "synchronise event": "Check(cudaEventSynchronize($name));",
    "host work": "HostWork($seconds);",
    "rounds": "std::max(1, int($weight * work))",
    "kernels": "Kernels($pieces, work, $stream);",
    "part": "$name[{$start, $stop}]",
    "cut": "Cut($size, $unit, chunks)",
    "heads": "Heads($name)",
    "each": "for (auto& d : $name)",
    "fewer": "$name = std::min($name, chunks);",
    "h2d": "Put($card, $host, $stream);",
    "h2d blocking": "Put($card, $host, $stream);\nCheck(cudaStreamSynchronize($stream));",
    "d2h": "Put($host, $card, $stream);",
    "d2h blocking": "Put($host, $card, $stream);\nCheck(cudaStreamSynchronize($stream));",
    "launch": "Kernels($source, $target, $rounds, $stream);",
    "new pinned": "Check(cudaMallocHost(&$name.data, 4 * $name.size));",
    "new pageable": "$name.data = new float[$name.size];",
    "new device": "Check(cudaMalloc(&$name.data, 4 * $name.size));",
    "new resident": "Check(cudaMalloc(&$name.data, 4 * $name.size));\nstd::vector<float> start_$name($name.size);\n"
    "std::generate(start_$name.begin(), start_$name.end(), Random);\n"
    "Check(cudaMemcpy($name.data, start_$name.data(), 4 * $name.size, cudaMemcpyDefault));",
    "array": "Floats $name{nullptr, $size};\n$new",
    "ring": "std::vector<Floats> $name(buffers, {nullptr, $size});\nfor (auto& d : $name) {\n  $new\n}",
    "random": "std::generate_n($name.data, $name.size, Random);",
    "saved": "Values($name)",
    "fetched": "Values($name)",
    "cleared": "Check(cudaMemset($name.data, 0, 4 * $name.size));",
    "spoilt": "std::fill_n($name.data, $name.size, $value);",
    "not a number": "NAN",
    "restored": "std::copy(start_$name.begin(), start_$name.end(), $name.data);",
    "result": "output.push_back($content);",
    "result ring": "for (auto& d : $name) {\n  output.push_back($content);\n}",
    "event": "Events(1)[0]",
    "events": "Events($number)",
    "stream non-blocking": "Check(cudaStreamCreateWithFlags(&$name, cudaStreamNonBlocking));",
    "stream blocking": "Check(cudaStreamCreateWithFlags(&$name, cudaStreamDefault));",
    "stream legacy": "$name = cudaStreamLegacy;",
    "too many": ' || given["--chunks"] > $most',
    "hint": ", or over $most chunks",
    "fixed streams": ', \\"streams\\": $number',
    "unknown rounds": "0",
}


class StepWriter:
    """The steps of a program in a language."""

    def __init__(self, phrases: Phrases) -> None:
        self.phrases = phrases

    def say(self, phrase: str, **words: object) -> str:
        """Return a phrase with its words."""
        return Template(self.phrases[phrase]).substitute(words)

    def block(self, head: str, body: list[str]) -> list[str]:
        """Return the body behind its head."""
        inner = indent("\n".join(body), self.say("indent")).splitlines()
        return [head + self.say("opened"), *inner, *self.say("closed").splitlines()]

    def loop(self, name: str, end: str, body: list[str], first: str = "0") -> list[str]:
        """Return the body for ``name`` from ``first`` to ``end - 1``."""
        return self.block(self.say("loop" if first == "0" else "loop from", name=name, first=first, end=end), body)

    def when(self, conditions: Sequence[str], body: list[str]) -> list[str]:
        """Return the body under the conditions, if there are any."""
        condition = self.say("and").join(conditions)
        return self.block(self.say("if", condition=condition), body) if conditions else body

    def within(self, stream: str, body: list[str]) -> list[str]:
        """Return calls in a stream; in some languages, each call names its stream."""
        head = self.say("within", stream=stream)
        return self.block(head, body) if head else body

    def copy(self, direction: Direction, card: str, host: str, stream: str, is_blocking: bool) -> list[str]:
        """Return a copy between a piece on the card and one on the host, in the current stream, called ``stream``."""
        phrase = f"{direction} blocking" if is_blocking else direction
        return self.say(phrase, card=card, host=host, stream=stream).splitlines()

    def rounds(self, weight: float) -> str:
        """Return the rounds of a launch with this weight."""
        return "work" if weight == 1 else self.say("rounds", weight=f"{weight:.4g}")
