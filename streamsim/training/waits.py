"""What a training loop waits for."""

from msgspec.structs import replace

from streamsim.analysis import lower_bound
from streamsim.compiled import simulate_one_of_many
from streamsim.transform import LoopSource, Work

FASTER = 0.9  # a part shortened to this share shows whether the loop waits for it
BINDS = 0.25  # the loop waits for a part if it gains at least this share of the time that the part gains
FILLS = 0.9  # or if the part takes this share of the loop's time


def waits_for(work: Work) -> tuple[str, ...]:
    """Return the parts that a training loop waits for; of a recorded program what sets its lower bound.

    If such a part takes less time, the loop gains at least a quarter of that. Or the part fills the loop's time, beside
    another part that does. There are several if parts take turns.
    """
    if not isinstance(work.source, LoopSource):
        return (lower_bound(*work[:2]).bound_by,)
    loop, staging_s = work.source.loop, work.source.staging_s
    link, steps, seconds = work.device.h2d, 2 * loop.warm_steps + 1, _seconds_of(work)
    rate = link.bandwidth_bytes_per_s if loop.is_pinned else link.pageable_bandwidth_bytes_per_s
    faster_step = replace(loop, step_s=loop.step_s * FASTER, issue_s=loop.issue_s * FASTER)
    smaller = replace(loop, batch_bytes=max(1, round(loop.batch_bytes * FASTER)))
    parts = {
        "loading": (loop.load_s / loop.period_workers, replace(loop, load_s=loop.load_s * FASTER), staging_s),
        "the step": (max(loop.step_s, loop.issue_s), faster_step, staging_s),
        "the copy": (loop.batch_bytes / rate, smaller, staging_s),
        "pinning": (staging_s * loop.pins, loop, staging_s * FASTER),
    }
    bound = []
    for part, (part_s, shorter, staging_s) in parts.items():
        faster_s = _seconds_of(work._replace(schedule=shorter.schedule(steps, staging_s)))
        if part_s and (part_s >= FILLS * seconds or seconds - faster_s >= BINDS * (1 - FASTER) * part_s):
            bound.append(part)
    return tuple(bound) or ("calls of the host",)


def _seconds_of(work: Work) -> float:
    return work.seconds_of(simulate_one_of_many(*work[:2]))
