"""The program of layers that are streamed to the card: PyTorch, for the layers of an ``nn.Sequential``.

It is a loop over the layers. The tests compare it with :meth:`streamsim.program.layers.Offload.schedule`, op for op.
"""

from collections.abc import Sequence
from itertools import groupby

from streamsim.code.plans import FLOAT_BYTES, VERIFIED, Language
from streamsim.code.steps import PYTORCH
from streamsim.code.templates import PYTHON_PROGRAM, written
from streamsim.errors import InputError
from streamsim.program import DIRECTIONS, Layers, Offload

MOST_FEATURES = 4096  # of the stand-in: floats that a layer takes
LEAST_FLOATS = 4

_IMPORTS = """\
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.utils.benchmark import Timer
"""
_MODEL = """

# ---- YOUR MODEL GOES HERE: an nn.Sequential in place of the stand-in ----
class Layer(nn.Module):  # linear, of so many weights; the next takes its first outputs
    def __init__(self, size, launches):
        super().__init__()
        self.linear = nn.Linear(WIDTH, size // WIDTH, bias=False)
        self.rest = nn.Parameter(torch.zeros(size % WIDTH))
        nn.init.normal_(self.linear.weight, std=WIDTH**-0.5)
        self.launches = launches

    def forward(self, x):
        for _ in range(self.launches):
            x = self.linear(x)[:, :WIDTH]
        return x


model = nn.Sequential(*map(Layer, SIZES, LAUNCHES))
$loss
# ---- up to here ----
$backward
"""
_LOSS = """

def loss_gradient(y, x):  # YOUR LOSS: its gradient, of the shape of the output y
    return x


"""
_BACKWARD = """

def backward(layer, x, gradient):  # runs the layer again; its input's gradient
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(layer(x), x, gradient)[0]
"""
_MEMORY = """\
torch.set_grad_enabled(False)
moved = [k for k in $order if k not in RESIDENT]
host = {k: parameters_to_vector(model[k].parameters())$pin for k in moved}
depth = min(depth, len(moved))
ahead = $ahead  # copies issued before the kernels
for k in RESIDENT:
    model[k].to("cuda")
like = {"device": "cuda", "dtype": next(model.parameters()).dtype}
largest = max(map(len, host.values()), default=0)
buffers = [torch.empty(largest, **like) for _ in range(depth)]
x = torch.randn(rows, WIDTH).to(**like)
results = []
"""
_CALLS = """\
loaded, ran = ([torch.cuda.Event() for _ in range(depth)] for _ in range(2))
turn_in, coming = [None] * depth, set()  # in each buffer; not waited for yet

def fetch(i, load):  # the layer whose turn is i, unless it is still in its buffer
    if not 0 <= i < $count or turn_in[i % depth] == i:
        return
    if turn_in[i % depth] is not None:
        load.wait_event(ran[i % depth])
    turn_in[i % depth] = i
    coming.add(i)
    weights = host[moved[i % len(moved)]]
    with torch.cuda.stream(load):
        buffers[i % depth][: weights.numel()].copy_(weights, non_blocking=True)
    loaded[i % depth].record(load)

def run(k, i, following, load, compute, function, *inputs):  # layer k in turn i
    if k in host:
        vector_to_parameters(buffers[i % depth], model[k].parameters())
        if i in coming:
            coming.remove(i)
            compute.wait_event(loaded[i % depth])
    with torch.cuda.stream(compute):
        y = function(*inputs)
    if k in host:
        ran[i % depth].record(compute)
        fetch(following, load)
    return y

def alone(k, of="f(x)"):  # seconds of a layer whose weights are on the card
    if k in host:
        buffers[0][: host[k].numel()].copy_(host[k])
        vector_to_parameters(buffers[0], model[k].parameters())
    names = {"f": model[k], "x": x$names}
    return Timer(of, globals=names).timeit(repeat).mean
"""
_ISSUE = """\
turn_in[:], i = [None] * depth, 0
results.clear()
for item in range(ahead):
    fetch(item, stream[0])
for _ in range(passes):
    $begun
    $forward_pass
    $backward_pass
    results.append(y)
"""
_FORWARD_PASS = """\
for k, layer in enumerate(model):
    $kept
    y = run(k, i, i + ahead, *stream, layer, y)
    i += k in host
"""
_BACKWARD_PASS = """\
y = loss_gradient(y, x)
for k in reversed(range(len(model))):
    $before
    y = run(k, i, i $way ahead, *stream, backward, model[k], inputs[k], y)
    $after
"""


def code_of_layers(layers: Layers, config: Offload, language: Language = "pytorch") -> str:
    """Return the source of a program that streams the layers, each as a linear layer with as many weights.

    The program takes another depth and other numbers of passes as arguments. It prints its wall times as JSON, and the
    time of each layer alone. Raises InputError for another language than PyTorch, and for layers that are not whole
    floats.
    """
    if language != "pytorch":
        raise InputError(f"language = {language!r}: layers are modules of PyTorch; write them --as pytorch")
    stay, steps = sorted(config.numbers(layers)), layers.steps
    for step in steps:
        if step.weight_bytes % FLOAT_BYTES or step.weight_bytes < LEAST_FLOATS * FLOAT_BYTES:
            raise InputError(
                f"{step.name}: weight_bytes = {step.weight_bytes}: the layers of a program hold floats, some at least;"
                f" give a multiple of {FLOAT_BYTES} from {LEAST_FLOATS * FLOAT_BYTES}"
            )
    sizes = [step.weight_bytes // FLOAT_BYTES for step in steps]
    features = next(n for n in (MOST_FEATURES >> k for k in range(32)) if n * n <= min(sizes))
    is_both, is_backward = layers.direction == "both", layers.is_backward
    words = f"{len(steps)} layers{f' {DIRECTIONS[layers.direction]}' * is_backward}, {len(stay)} stay on the card"
    defaults = {"depth": config.depth, "passes": layers.passes, "repeat": 10, "rows": 1024}
    found = ['"card_bytes": torch.cuda.max_memory_allocated(),', '"layer_s": [alone(k) for k in range(len(model))],']
    found += ['"backward_s": [alone(k, "b(f, x, x)") for k in range(len(model))],'] * is_backward
    return written(
        PYTHON_PROGRAM,
        {
            **PYTORCH,
            **dict.fromkeys(("functions", "cuts", "rounds", "captured", "too_many", "hint"), ""),
            "summary": words,
            "imports": _IMPORTS,
            "constants": [
                "# The floats that a layer takes, and those of the weights of each layer.",
                f"WIDTH = {features}",
                f"SIZES = [{_runs(sizes)}]",
                "# The kernels of each layer, and the layers that stay on the card.",
                f"LAUNCHES = [{_runs([len(step.launches(False)) for step in steps])}]",
                f"RESIDENT = {set(stay)}",
            ],
            "defaults": ", ".join(f'"{name}": {value}' for name, value in defaults.items()),
            "kernels": _MODEL,
            "loss": _LOSS if is_backward else "",
            "backward": _BACKWARD if is_backward else "",
            "arguments": ", ".join(defaults),
            "memory": _MEMORY,
            "order": "reversed(range(len(model)))" if layers.direction == "backward" else "range(len(model))",
            "pin": "" if config.memory == "pageable" else ".pin_memory()",
            "ahead": "min(1, depth)" if config.memory == "pageable" else "depth",
            "streams": ["pool = [torch.cuda.Stream() for _ in range(2)]  # load, compute"],
            "events": _CALLS,
            "count": "len(moved)" if is_both else "passes * len(moved)",
            "names": ', "b": backward' * is_backward,
            "issue": _ISSUE,
            "begun": ["y = x", *([f"inputs = {'[]' if is_both else '[x] * len(model)'}"] if is_backward else [])],
            "forward_pass": "" if layers.direction == "backward" else _FORWARD_PASS,
            "kept": ["inputs.append(y)"] if is_both else [],
            "backward_pass": _BACKWARD_PASS if is_backward else "",
            "before": ["i -= k in host"] if is_both else [],
            "after": [] if is_both else ["i += k in host"],
            "way": "-" if is_both else "+",
            "fresh": ["for buffer in buffers:", '    buffer.fill_(float("nan"))'],
            "output": "y.cpu() for y in results",
            "number": "2",
            "program": "pipeline, pool",
            "verified": str(VERIFIED),
            "found": found,
            "name": "offload in pytorch",
        },
    )


def _runs(numbers: Sequence[int]) -> str:
    """Return the items of a list, with equal numbers in a row shortened."""
    runs = [(number, len(list(same))) for number, same in groupby(numbers)]
    return ", ".join(f"*[{number}] * {many}" if many > 2 else ", ".join([str(number)] * many) for number, many in runs)
