"""A measuring process: ``python -m streamsim_validate.run CONNECTIONS``, the plan on a line of stdin.

It ends when stdin does, which is when the process that started it has ended, however that was.
"""

import os
import sys
from _thread import interrupt_main
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from threading import Thread
from time import sleep

import msgspec

from streamsim.cli.running import say, steps
from streamsim.code import LANGUAGES
from streamsim.errors import INTERRUPTED, OK, InputError
from streamsim_validate.calibrate import Samples, measure_front_ends, measure_probes
from streamsim_validate.gpu import CudaRounds, Gpu, compiled_rounds, installed_libraries, load_kernels, open_gpu
from streamsim_validate.progress import OnStep
from streamsim_validate.run.campaign import COMPLAINT, Plan, measure_plan

SETTLING_S = 60.0  # for what is measured and not in the journal yet


def main(arguments: Sequence[str]) -> int:
    """Run a measuring process: the plan on stdin, the number of connections as argument."""
    try:
        plan = msgspec.json.decode(sys.stdin.buffer.readline(), type=Plan)
        Thread(target=_end_with_stdin, daemon=True).start()
        for path in plan.kernels:
            load_kernels(path)
        with open_gpu(plan.device) as gpu, steps(sys.stdout) as on_step:
            calibrates = partial(_calibrated, plan, on_step) if plan.calibrate else None
            measure_plan(plan, int(arguments[0]), gpu, calibrates, on_step)
    except InputError as error:
        say(f"{COMPLAINT}{error}")
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    return OK


def _calibrated(plan: Plan, on_step: OnStep, gpu: Gpu) -> Samples:
    """Return the samples of the card's probes, and of the front ends' if programs are measured."""
    found = measure_probes(gpu, on_step=on_step)
    if not plan.is_of_programs:
        return found
    languages = plan.front_ends or LANGUAGES
    libraries = (one for one in installed_libraries(plan.device) if one.name in languages)
    with compiled_rounds(plan.device, CudaRounds.name in languages) as compiled:
        return replace(found, front_ends=measure_front_ends(libraries, compiled, on_step))


def _end_with_stdin() -> None:
    """End the process as Ctrl-C does when stdin ends. Until then the thread sleeps and disturbs no measurement."""
    os.read(sys.stdin.fileno(), 1)
    interrupt_main()
    sleep(SETTLING_S)
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
