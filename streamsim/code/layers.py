"""The program of layers that are streamed to the card: PyTorch, for the layers of an ``nn.Sequential``.

It is a loop over the layers. The tests compare it with :meth:`streamsim.program.offload.Offload.schedule`, op for op.
"""

from collections.abc import Sequence
from textwrap import wrap

from streamsim.code.fitted import PYTHON_WIDTH as LINE_WIDTH
from streamsim.code.plans import FLOAT_BYTES, VERIFIED, Language
from streamsim.code.python import SINGLE
from streamsim.errors import InputError
from streamsim.program import Layers, Offload, PassDirection

MOST_FEATURES = 4096  # of the stand-in: floats that a layer takes
LEAST_FLOATS = 4
MOST_LINES = 8  # of a list with an item a line

_HEAD = '''"""{words}; prints its times as JSON."""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.utils.benchmark import Timer

WIDTH = {features}  # floats that a layer of the stand-in takes
'''

_REST = """

# ---- YOUR MODEL GOES HERE: an nn.Sequential in place of the stand-in ----
class Layer(nn.Module):  # linear, of so many weights; the next takes its first outputs
    def __init__(self, {arguments}):
        super().__init__()
        self.linear = nn.Linear(WIDTH, size // WIDTH, bias=False)
        self.rest = nn.Parameter(torch.zeros(size % WIDTH))
        nn.init.normal_(self.linear.weight, std=WIDTH**-0.5)
{init}
    def forward(self, x):
{forward}


model = nn.Sequential(*map(Layer, {lists}))
{loss}# ---- up to here ----

{backward}
@torch.no_grad()
def measure(depth, passes, repeat, rows):  # its times, and whether it is right
    moved = [k for k in {first} if k not in RESIDENT]
    host = {host}
    depth = min(depth, len(moved))
    ahead = {ahead}  # copies issued before the kernels
    for k in RESIDENT:
        model[k].to("cuda")
    like = {{"device": "cuda", "dtype": next(model.parameters()).dtype}}
    largest = max(map(len, host.values()), default=0)
    buffers = [torch.empty(largest, **like) for _ in range(depth)]
    x = torch.randn(rows, WIDTH).to(**like)
    pool = [torch.cuda.Stream() for _ in range(2)]
    loaded, ran = ([torch.cuda.Event() for _ in range(depth)] for _ in range(2))
{fetch}        with torch.cuda.stream(load):
            buffers[i % depth][: weights.numel()].copy_(weights, non_blocking=True)
        loaded[i % depth].record(load)

    def run(k, i, following, load, compute, function, *inputs):  # layer k in turn i
        if k in host:
            vector_to_parameters(buffers[i % depth], model[k].parameters())
{wait}        with torch.cuda.stream(compute):
            y = function(*inputs)
        if k in host:
            ran[i % depth].record(compute)
            fetch(following, load)
        return y

    def pipeline(*streams):
{pipeline}
        return outputs

    def timed(streams):
        start = time.perf_counter()
        outputs = pipeline(*streams)
        issued = time.perf_counter()
        torch.cuda.synchronize()
        return (issued - start, time.perf_counter() - start), outputs

    def output_of(streams):  # with nothing left of earlier runs
        for buffer in buffers:
            buffer.fill_(float("nan"))
        torch.cuda.synchronize()
        return [y.cpu() for y in timed(streams)[1]]

    def alone(k, of="f(x)"):  # seconds of a layer whose weights are on the card
        if k in host:
            buffers[0][: host[k].numel()].copy_(host[k])
            vector_to_parameters(buffers[0], model[k].parameters())
        names = {{"f": model[k], "x": x{names}}}
        return Timer(of, globals=names).timeit(repeat).mean

    {single}
    wanted = output_of(pool[:1] * 2)  # one stream: serial
    right = [all(map(torch.equal, output_of(pool), wanted)) for _ in range({verified})]
    runs = [timed(pool)[0] for _ in range(1 + repeat)]
    issue_s, wall_s = zip(*runs[1:], strict=True)
    held = {{"card_bytes": torch.cuda.max_memory_allocated(), "verified": all(right)}}
    held["layer_s"] = [alone(k) for k in range(len(model))]
{backward_s}    return {{"issue_s": issue_s, "wall_s": wall_s, **held}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in DEFAULTS.items():
        parser.add_argument(f"--{{name}}", type=int, default=value)
    given = vars(parser.parse_args())
    if min(given.values()) < 1:
        parser.error("give whole numbers from 1")
    result = measure(**given)
    print(json.dumps({{"program": "offload in pytorch", **given, **result}}))
    raise SystemExit(0 if result["verified"] else 1)
"""


_FETCH = """
    def fetch(i, load):  # the layer whose turn is i, counted over all passes
        if i >= passes * len(moved):
            return
        if i >= depth:
            load.wait_event(ran[i % depth])
        weights = host[moved[i % len(moved)]]
"""
_FETCH_OF_BOTH = """    layer_in, coming = [None] * depth, set()  # in each buffer; not waited for yet

    def fetch(i, load):  # the i-th moved layer, unless it is still in its buffer
        if not 0 <= i < len(moved) or layer_in[i % depth] == i:
            return
        if layer_in[i % depth] is not None:
            load.wait_event(ran[i % depth])
        layer_in[i % depth] = i
        coming.add(i)
        weights = host[moved[i]]
"""
_WAIT = """            compute.wait_event(loaded[i % depth])
"""
_WAIT_OF_BOTH = """            if i in coming:
                coming.remove(i)
                compute.wait_event(loaded[i % depth])
"""
_BACKWARD = """
def backward(layer, x, gradient):  # runs the layer again; its input's gradient
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(layer(x), x, gradient)[0]

"""
_BACKWARD_S = """    held["backward_s"] = [alone(k, "b(f, x, x)") for k in range(len(model))]
"""
_LOSS = """

def loss_gradient(y, x):  # YOUR LOSS: its gradient, of the shape of the output y
    return x


"""
_PIPELINE: dict[PassDirection, str] = {
    "forward": """        i, outputs = 0, []
        for item in range(ahead):
            fetch(item, streams[0])
        for _ in range(passes):
            y = x
            for k, layer in enumerate(model):
                y = run(k, i, i + ahead, *streams, layer, y)
                i += k in host
            outputs.append(y)""",
    "backward": """        i, outputs = 0, []
        for item in range(ahead):
            fetch(item, streams[0])
        for _ in range(passes):
            y = loss_gradient(x, x)
            for k in reversed(range(len(model))):  # x: in place of the layer's input
                y = run(k, i, i + ahead, *streams, backward, model[k], x, y)
                i += k in host
            outputs.append(y)""",
    "both": """        layer_in[:], outputs = [None] * depth, []
        for item in range(ahead):
            fetch(item, streams[0])
        for _ in range(passes):
            y, inputs, i = x, [], 0
            for k, layer in enumerate(model):
                inputs.append(y)
                y = run(k, i, i + ahead, *streams, layer, y)
                i += k in host
            y = loss_gradient(y, x)
            for k in reversed(range(len(model))):
                i -= k in host
                y = run(k, i, i - ahead, *streams, backward, model[k], inputs[k], y)
            outputs.append(y)""",
}


def code_of_layers(layers: Layers, config: Offload, language: Language = "pytorch") -> str:
    """Return the source of a program that streams the layers, each as a linear layer with as many weights.

    The program takes another depth and other numbers of passes as arguments. It prints its wall times as JSON, and the
    time of each layer alone. Raises InputError for another language than PyTorch, and for layers that are not whole
    floats.
    """
    if language != "pytorch":
        raise InputError(f"language = {language!r}: layers are modules of PyTorch; write them --as pytorch")
    stay, steps = config.numbers(layers), layers.steps
    for step in steps:
        if step.weight_bytes % FLOAT_BYTES or step.weight_bytes < LEAST_FLOATS * FLOAT_BYTES:
            raise InputError(
                f"{step.name}: weight_bytes = {step.weight_bytes}: the layers of a program hold floats, some at least;"
                f" give a multiple of {FLOAT_BYTES} from {LEAST_FLOATS * FLOAT_BYTES}"
            )
    sizes = [step.weight_bytes // FLOAT_BYTES for step in steps]
    launches = [len(step.launches(False)) for step in steps]
    is_repeated = max(launches) > 1
    words = f"{len(steps)} layers{f' {layers.direction_words}' * layers.is_backward}, {len(stay)} stay on the card"
    defaults = f'DEFAULTS = {{"depth": {config.depth}, "passes": {layers.passes}, "repeat": 10, "rows": 1024}}'
    lines = [
        *_HEAD.format(words=words, features=_features(sizes)).splitlines(),
        *_list("SIZES", sizes, "floats of the weights of each layer"),
        *(_list("LAUNCHES", launches, "of each layer") if is_repeated else []),
        *(_list("RESIDENT", sorted(stay), "the layers that stay on the card", "{}") if stay else ["RESIDENT = set()"]),
        defaults,
    ]
    text = _REST.format(
        single=SINGLE,
        arguments="size, launches" if is_repeated else "size",
        init="        self.launches = launches\n" if is_repeated else "",
        forward=_FORWARD[is_repeated],
        lists="SIZES, LAUNCHES" if is_repeated else "SIZES",
        host=_HOST[config.memory],
        ahead="min(1, depth)" if config.memory == "pageable" else "depth",
        verified=VERIFIED,
        loss=_LOSS * layers.is_backward,
        backward=_BACKWARD * layers.is_backward,
        first="reversed(range(len(model)))" if layers.direction == "backward" else "range(len(model))",
        fetch=_FETCH_OF_BOTH if layers.direction == "both" else _FETCH,
        wait=_WAIT_OF_BOTH if layers.direction == "both" else _WAIT,
        pipeline=_PIPELINE[layers.direction],
        names=', "b": backward' * layers.is_backward,
        backward_s=_BACKWARD_S * layers.is_backward,
    )
    return "\n".join(lines) + "\n" + text


_HOST = {
    "pinned": "{k: parameters_to_vector(model[k].parameters()).pin_memory() for k in moved}",
    "pageable": "{k: parameters_to_vector(model[k].parameters()) for k in moved}",
}
_FORWARD = {
    False: "        return self.linear(x)[:, :WIDTH]",
    True: "        for _ in range(self.launches):\n            x = self.linear(x)[:, :WIDTH]\n        return x",
}


def _features(sizes: Sequence[int]) -> int:
    """Return the largest power of two, up to ``MOST_FEATURES``, whose square is at most the size of every layer."""
    features = MOST_FEATURES
    while features * features > min(sizes):
        features //= 2
    return features


def _list(name: str, numbers: Sequence[int], words: str, brackets: str = "[]") -> list[str]:
    """Return the lines of ``name = [...]``, with equal numbers in a row shortened; long lists are wrapped."""
    items = _runs(numbers) if brackets == "[]" else [str(number) for number in numbers]
    line = f"{name} = {brackets[0]}{', '.join(items)}{brackets[1]}"
    if len(f"{line}  # {words}") <= LINE_WIDTH:
        return [f"{line}  # {words}"]
    head = f"{name} = {brackets[0]}  # {words}"
    if len(items) <= MOST_LINES:
        return [head, *(f"    {item}," for item in items), brackets[1]]
    wrapped = wrap(f"{', '.join(items)},", LINE_WIDTH - 4)
    return ["# fmt: off", head, *(f"    {part}" for part in wrapped), brackets[1], "# fmt: on"]


def _runs(numbers: Sequence[int]) -> list[str]:
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][0] == number:
            found[-1] = number, found[-1][1] + 1
        else:
            found.append((number, 1))
    return [f"*[{number}] * {many}" if many > 2 else ", ".join([str(number)] * many) for number, many in found]
