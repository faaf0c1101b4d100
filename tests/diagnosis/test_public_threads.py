"""Public threads: somebody measured a time, and the thread says what was wrong.

Threads are listed in the order in which they were found. A thread was taken if it gives the bytes or the kernels' time,
a measured time and an answer. Every second one, from the first on, was built with; the others were kept back, and
looked at once, after all that the first ones showed was mended; the last three were found after that, and tried once.
`docs/diagnose.md` says how often the answer was right.
Where a thread gives a rate of its own copies, that rate is set; else the rates are those of the nearest profile.
"""

import msgspec
import pytest

from streamsim.device import changed, load_device, with_front_end
from streamsim.diagnosis import Measured, diagnose
from streamsim.program import Config, Workload, workload_of_sizes

pytestmark = pytest.mark.ci

SAMPLES = "https://github.com/NVIDIA/cuda-samples"
BLOG = "https://developer.nvidia.com/blog/how-overlap-data-transfers-cuda-cc/"
SMALL_TENSORS = "https://github.com/swiss-ai/posttraining (tests/memory/non_blocking.py)"
NOTEBOOK = "a notebook on https://developer.nvidia.com/blog/how-optimize-data-transfers-cuda-cc/"
PYTORCH = "https://github.com/pytorch/pytorch/issues/"

# The titles of mistakes.
PAGEABLE = "host memory is pageable"
BLOCKING = "copies block the host"
ONE_STREAM = "one stream for all chunks"
ONE_ENGINE = "one copy engine for both directions"
FEW_QUEUES = "breadth-first issue on one hardware queue"
WAITS = "the host waits in the loop"
ALLOCATED = "memory is allocated and freed in the loop"
FIRST = "a first run was timed"
STOPPED_EARLY = "the clock stopped before the card was done"
EARLIER = "earlier work was still running when the clock started"


class Thread(msgspec.Struct, frozen=True):
    """What a thread says: the program as it was meant, its measured times and the answer.

    ``sizes``: bytes to the card, time of the kernels, bytes back. ``device``: the nearest profile. ``known``: rates
    that the thread gives. ``unexplained``: why the answer is not found; empty where it is.
    """

    name: str
    address: str
    device: str
    sizes: tuple[str, str, str]
    measured: tuple[Measured, ...]
    answer: str
    known: dict[str, str] = {}
    config: Config = Config()
    front_end: str | None = None
    unexplained: str = ""

    @property
    def work(self) -> Workload:
        h2d, kernel, d2h = ([part] if part else [] for part in self.sizes)
        return workload_of_sizes(h2d, kernel, d2h)


def ms(time: float) -> tuple[Measured, ...]:
    return (Measured(time * 1e-3),)


RTX_4090 = {
    "h2d.bandwidth": "13.454GB/s",
    "d2h.bandwidth": "13.37GB/s",
    "h2d.pageable_bandwidth": "5.959GB/s",
    "d2h.pageable_bandwidth": "5.125GB/s",
}
GTX_1080_TI = {"h2d.bandwidth": "6.586GB/s", "d2h.bandwidth": "6.751GB/s"}
FOUR = Config("depth-first", 4, 4)

THREADS = (
    Thread("a notebook's tensor to the card", NOTEBOOK, "rtx4090", ("1600MB", "", ""), ms(383.9), PAGEABLE, RTX_4090),
    Thread("the same, non_blocking", NOTEBOOK, "rtx4090", ("1600MB", "", ""), ms(0.4122), STOPPED_EARLY, RTX_4090),
    Thread("back into ordinary memory", NOTEBOOK, "rtx4090", ("", "", "1600MB"), ms(730.6), PAGEABLE, RTX_4090),
    # The kernel's time is the sequential time of the card, 12.92 ms, without its two copies.
    Thread(
        "Tesla C1060, depth-first", BLOG, "c1060", ("16MiB", "7.31ms", "16MiB"), ms(13.6369), ONE_ENGINE,
        {"copy_engines.count": "2"}, FOUR,
    ),
    # As above: 9.985 ms without its two copies.
    Thread(
        "Tesla C2050, breadth-first", BLOG, "c2050", ("16MiB", "4.37ms", "16MiB"), ms(7.597984), FEW_QUEUES,
        config=FOUR,
    ),
    Thread(
        "simpleMultiCopy, A100", SAMPLES, "a100", ("16MiB", "0.054848ms", "16MiB"), ms(1.445683), ONE_STREAM,
        {"h2d.bandwidth": "24.44GB/s", "d2h.bandwidth": "23.8GB/s"}, FOUR,
    ),
    Thread(
        "simpleMultiCopy, GTX 1080 Ti", SAMPLES, "p100", ("16MiB", "0.194976ms", "16MiB"), ms(5.235814), ONE_STREAM,
        GTX_1080_TI, FOUR,
    ),
    Thread(
        "640 small tensors, one after the other", PYTORCH + "20411", "p100", ("10MiB", "", ""), ms(25), BLOCKING,
        config=Config("depth-first", 640), front_end="pytorch",
    ),
    Thread("DataLoader with pin_memory", PYTORCH + "16901", "v100", ("154140672", "", ""), ms(30), PAGEABLE),
    Thread(
        "get() from a pinned program", "https://github.com/cupy/cupy/issues/1937", "p100", ("", "", "64MB"), ms(20),
        PAGEABLE, {"d2h.bandwidth": "11.5GB/s"},
    ),
    Thread(
        "1 GiB there and back with Numba", "https://github.com/numba/numba/issues/4336", "v100",
        ("1GiB", "", "1GiB"), ms(794.06), PAGEABLE,
    ),
    Thread(
        "benchmark of matmul", "https://github.com/TristanBilot/mlx-benchmark/pull/21", "rtx4090", ("", "1.36ms", ""),
        ms(0.03), STOPPED_EARLY,
    ),
    Thread(
        "inference with torch2trt", "https://github.com/NVIDIA-AI-IOT/torch2trt/issues/471", "t4", ("", "60ms", ""),
        ms(3), STOPPED_EARLY,
    ),
    Thread(
        "dry run with CuPy", "https://github.com/qiboteam/qibojit/issues/27", "v100", ("", "0.02ms", ""), ms(750),
        FIRST,
    ),
    Thread("cpu() of a small map", PYTORCH + "24318", "t4", ("", "", "129600"), ms(3000), EARLIER),
    Thread("forward of BERT", PYTORCH + "72511", "t4", ("", "92ms", ""), ms(12), STOPPED_EARLY),
    Thread("a result of 21 x 40 floats back", PYTORCH + "48779", "t4", ("", "", "3360"), ms(200), EARLIER),
    Thread("an image of 500 x 300 back", PYTORCH + "15789", "t4", ("", "", "450000"), ms(100), EARLIER),
    Thread("speed of a network", PYTORCH + "18012", "v100", ("", "33.3ms", ""), ms(5.56), STOPPED_EARLY),
    Thread(
        "1 GiB into new memory of the card", "https://github.com/vortex-data/vortex/pull/7815", "h100",
        ("1GiB", "", ""), ms(42.19), ALLOCATED, {"h2d.bandwidth": "104.6GB/s"},
    ),
    Thread(
        "experts of 48 layers", "https://github.com/kekzl/imp/pull/1360", "rtx5090", ("288MiB", "4.8ms", ""),
        ms(15.47), ONE_STREAM, config=Config("depth-first", 48, 2),
        unexplained="its copies take twice as long behind kernels as alone; cold host memory explains that as well",
    ),
    Thread("a first image to the card", PYTORCH + "39005", "v100", ("2949120", "", ""), ms(1500), FIRST),
    Thread(
        "a first session.run", "https://github.com/microsoft/onnxruntime/issues/12197", "rtx3060", ("", "2ms", ""),
        ms(1000), FIRST,
    ),
    Thread("a first tensor to a P40", PYTORCH + "33414", "p100", ("1080000", "", ""), ms(4131.41), FIRST),
    Thread(
        "a first executeV2", "https://github.com/NVIDIA/TensorRT/issues/1776", "t4", ("", "10ms", ""), ms(1000), FIRST,
    ),
    Thread(
        "an expert from a mapped file", "https://github.com/kekzl/imp/pull/1409", "rtx5090", ("864KiB", "", ""),
        ms(0.0923), PAGEABLE, {"h2d.bandwidth": "32.4GB/s"},
    ),
    Thread(
        "10 GiB back with JAX", "https://github.com/jax-ml/jax/issues/21438", "h100", ("", "", "10GiB"), ms(3600.9),
        PAGEABLE, {"d2h.bandwidth": "25GB/s"},
    ),
    Thread(
        "800 MB back after a product", "https://github.com/cupy/cupy/issues/2226", "t4", ("", "", "800MB"), ms(15798.2),
        EARLIER,
    ),
    Thread(
        "100 MB by feed_dict", "https://github.com/tensorflow/tensorflow/issues/17204", "v100", ("100MB", "", ""),
        ms(21.67), PAGEABLE,
    ),
    Thread(
        "1 GiB into a new NumPy array", "https://github.com/rapidsai/dask-cuda/pull/98", "v100", ("", "", "1GiB"),
        ms(547.9), PAGEABLE,
    ),
    Thread(
        "48 MB from a slice", "https://github.com/tracel-ai/cubecl/pull/1334", "rtx3060", ("48MB", "", ""), ms(9),
        PAGEABLE, {"h2d.bandwidth": "16GB/s"},
    ),
    Thread(
        "24 MiB on a laptop", "https://github.com/tracel-ai/cubecl/issues/539", "rtx3060", ("24MiB", "", ""),
        ms(33.5), PAGEABLE, {"h2d.bandwidth": "12.24GB/s"},
        unexplained="0.75 GB/s is less than any rate of pageable copies to the card that is looked for",
    ),
    Thread(
        "CuPy's example of copies", "https://github.com/cupy/cupy/pull/1999", "p100", ("4MiB", "", "4MiB"),
        ms(2.39984), PAGEABLE,
    ),
    Thread(
        "a resized frame of 1080p", "https://github.com/kornia/kornia-rs/pull/1010", "t4", ("", "1ms", ""), ms(8.47),
        ALLOCATED,
        unexplained="the pool of an embedded board took 7 ms for a frame; no more than 1 ms is looked for",
    ),
    # Found after all the others, and after what they showed was mended.
    Thread(
        "1000 small tensors, A100", SMALL_TENSORS, "a100", ("4MB", "", ""), ms(17.7954), BLOCKING,
        config=Config("depth-first", 1000), front_end="pytorch",
        unexplained="one stream is taken to be entered for each tensor, which costs more than the copy's call",
    ),
    Thread(
        "1000 small tensors, GH200", SMALL_TENSORS, "h100", ("4MB", "", ""), ms(10.8342), BLOCKING,
        config=Config("depth-first", 1000), front_end="pytorch",
        unexplained="one stream is taken to be entered for each tensor, which costs more than the copy's call",
    ),
    # Nine segments in nine passes; the rate of the copies is what the slower of its two runs takes beside the kernels.
    Thread(
        "layers of Z-Image", "https://github.com/leejet/stable-diffusion.cpp/pull/1626", "rtx3060",
        ("110.16GB", "54.675s/81", ""), ms(82e3), WAITS, {"h2d.pageable_bandwidth": "4.06GB/s"},
        Config("depth-first", 81, 2, memory="pageable"),
    ),
)  # fmt: skip


def explained(thread: Thread) -> list[tuple[str, ...]]:
    """The mistakes of the explanations that are equal at the top."""
    device = changed(load_device(thread.device), thread.known)
    if thread.front_end is not None:
        device = with_front_end(device, thread.front_end)
    found = diagnose(thread.work, device, thread.measured, thread.config)
    return [explanation.titles for explanation in found.simplest]


@pytest.mark.parametrize(
    "thread",
    [
        pytest.param(
            thread,
            id=thread.name,
            marks=[pytest.mark.xfail(reason=thread.unexplained, strict=True)] if thread.unexplained else [],
        )
        for thread in THREADS
    ],
)
def test_the_answer_of_the_thread_is_first_or_among_equals(thread: Thread) -> None:
    assert (thread.answer,) in explained(thread)
