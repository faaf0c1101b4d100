"""Time lines: the times of every op, predicted or measured, and the critical path that sets the makespan."""

from streamsim.timeline.critical_path import WaitCause, causes_of, critical_path, critical_path_of
from streamsim.timeline.timeline import Timeline, Track, call_name, label, recorded_timeline
