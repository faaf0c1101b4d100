"""Times of a window of a recorded program in its untraced runs, which no profiler recorded."""

from statistics import median

from streamsim.recorded.recording import NONE, Recording
from streamsim.recorded.windows import name_of, part_of, window_ns


def untraced_time_s(recording: Recording, window: str | None, card: int | None = None) -> float | None:
    """Return the seconds that the program in a named window takes without a profiler; None if unknown.

    The time runs from the call of the first work until all work is done, as
    :func:`streamsim.recorded.replay.untraced` needs it. It is the median of the untraced runs, less the window's time
    before that call and after the last work. That time was not measured and is taken from the recording. The time is
    unknown if work still runs at the end of the window, because an untraced run does not show when it ends.

    ``card``: the profiler's number of the card whose work counts (None: all cards).
    """
    if window is None or not recording.untraced:
        return None
    name, which = name_of(recording, window)
    if name not in recording.names:
        return None
    number = recording.names.index(name)
    lengths = ((run.end_ns - run.start_ns)[run.name == number] for run in recording.untraced)
    took_ns = [int(ns) for of_run in lengths for ns in of_run[which - 1 : which]]
    if not took_ns:
        return None
    opened_ns, closed_ns = window_ns(recording, window)
    inside = part_of(recording, card, window=window)
    calls, work = inside.calls, inside.work
    issuing = work.call[work.call != NONE]
    if not len(issuing) or work.end_ns.max() > closed_ns:
        return None
    before_ns = int(calls.start_ns[issuing].min()) - opened_ns
    behind_ns = closed_ns - int(max(calls.end_ns.max(), work.end_ns.max()))
    found_ns = median(took_ns) - before_ns - max(behind_ns, 0)
    return found_ns * 1e-9 if found_ns > 0 else None
