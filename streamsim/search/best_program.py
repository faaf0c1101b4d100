"""Search for the best chunks, streams and steps copied ahead of an existing program.

Every candidate is a list of changes, made and simulated as :func:`streamsim.advice.advise` does. The program's host
work and the costs of its calls are therefore part of each prediction. The unchanged program is a candidate too, so the
result is never slower.
"""

from pathlib import Path

from streamsim.advice import Trial, Values, advise, what_if
from streamsim.analysis import lower_bound
from streamsim.device import Device, as_device, link_words
from streamsim.program import Schedule, check_schedule
from streamsim.search.evaluate import is_fast
from streamsim.search.searches import BUDGET_OPS, Best, SimulatedProgram
from streamsim.transform import chunk_count

STREAMS, DEPTHS = (2, 3, 4, 6, 8, 12, 16, 24, 32), (1, 2, 4)
NEAR = 1.01  # times the time of the best: fewer changes that take no more are the ones to use


def best_program(
    schedule: Schedule,
    device: Device | str | Path,
    independent: bool = False,
    most_chunks: int = 256,
    most_streams: int = 32,
    budget_ops: int = BUDGET_OPS,
) -> Best[Trial]:
    """Find the best numbers of chunks, streams and steps copied ahead of a program.

    Where overlap needs them, pinned memory, asynchronous copies and the removal of host waits come with a candidate.

    - ``device``: a Device, or the name or file of one.
    - ``independent``: True if the steps do not depend on each other and can be cut. Otherwise, streams and other
      numbers of chunks are only searched if the schedule shows that they are possible.
    - ``most_chunks``, ``most_streams``: the most to try.
    - ``budget_ops``: the number of ops to simulate.

    Raises InputError for a program without chunks.
    """
    check_schedule("schedule", schedule)
    steps, device = chunk_count(schedule), as_device(device)
    streams = tuple(count for count in STREAMS if count <= most_streams)
    depths = tuple(depth for depth in DEPTHS if depth < steps)
    values = Values(streams=streams, depths=depths, most_chunks=most_chunks, in_pairs=True)
    advice = advise(schedule, device, None, independent, values, budget_ops)
    found = [advice.before, *(trial for trial in advice.trials if not trial.is_strong)]
    best = min(found, key=lambda trial: (trial.takes_s, len(trial.changes)))
    near = [trial for trial in found if trial.takes_s <= NEAR * best.takes_s]
    use = min(near, key=lambda trial: trial.simplicity)
    strong = min((trial for trial in advice.trials if trial.is_strong), key=lambda trial: trial.takes_s, default=best)
    return Best(
        best=_result(best, steps),
        simplest=_result(use, steps),
        compared={"before": _result(advice.before, steps)},
        work=schedule,
        card=device,
        link=link_words(device),
        programs=len(advice.trials) + 1,
        simulated=len(advice.trials) + 1,
        lists_all=False,
        left_open_because="only some numbers of chunks, streams and steps ahead are tried",
        exact=False,
        simplest_exact=False,
        floor_s=0.0,
        issued_bound=lower_bound(*best.made.case.scenario),
        compiled=is_fast(),
        changes=what_if(schedule, device, use.changes, independent=True) if use.changes else None,
        not_tried=(strong.words(advice.known_within),) if strong.takes_s * NEAR < best.takes_s else (),
    )


def _result(trial: Trial, steps: int) -> SimulatedProgram[Trial]:
    """Return the result of a trial; the unchanged program has ``steps`` chunks."""
    chunks = next((int(change.option.split()[1]) for change in trial.changes if change.kind == "--chunks"), steps)
    options = " ".join(trial.options)
    more = {**trial.to_json(), "options": trial.options, "chunks": chunks}
    words = options or ("the program unchanged" if not trial.changes else trial.text)
    return SimulatedProgram(trial, words, trial.takes_s, more=more)
