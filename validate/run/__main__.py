"""A measuring process: ``python -m streamsim_validate.run CONNECTIONS``, the plan on stdin."""

import sys
from collections.abc import Sequence
from functools import partial

import msgspec

from streamsim.cli.notes import steps
from streamsim.errors import INTERRUPTED, OK, InputError
from streamsim_validate.calibrate import measure_probes
from streamsim_validate.gpu import load_kernels, open_gpu
from streamsim_validate.run.campaign import COMPLAINT, Plan, measure_plan


def main(arguments: Sequence[str]) -> int:
    """Run a measuring process: the plan on stdin, the number of connections as argument."""
    try:
        plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
        for path in plan.kernels:
            load_kernels(path)
        with open_gpu(plan.device) as gpu, steps(sys.stdout) as on_step:
            calibrates = partial(measure_probes, on_step=on_step) if plan.calibrate else None
            measure_plan(plan, int(arguments[0]), gpu, calibrates, on_step)
    except InputError as error:
        print(f"{COMPLAINT}{error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    return OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
