"""Time lines: the times of every op, predicted or measured, and the critical path that sets the makespan."""

from streamsim.timeline.timeline import (
    Timeline,
    Track,
    WaitCause,
    call_name,
    causes_of,
    critical_path,
    critical_path_of,
    label,
    recorded_timeline,
)
