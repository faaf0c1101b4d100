"""The host's requests: schedules, workloads, and the patterns that make schedules of workloads."""

from streamsim.program.builder import Program
from streamsim.program.config import (
    DIRECTIONS,
    HOST_MEMORIES,
    ORDERS,
    Config,
    HostMemory,
    PassDirection,
    most_streams,
    ring_config,
    useful_buffers,
    useful_streams,
)
from streamsim.program.cuda_order import StreamOrder
from streamsim.program.files import (
    LARGEST_JSON_BYTES,
    PLAN,
    ProgramFile,
    ScheduleFile,
    WorkloadFile,
    dump_schedule,
    dump_workload,
    parse_schedule,
    parse_workload,
    read_plan,
    read_program,
    read_schedule,
    read_workload,
    write_schedule,
    write_workload,
)
from streamsim.program.layer_files import dump_layers, parse_layers, parse_layers_csv, read_layers, write_layers
from streamsim.program.layers import Layer, Layers, LayerStep
from streamsim.program.loops import (
    ISSUE_ORDERS,
    PREFETCH_BUFFERS,
    STAGES,
    Body,
    Distance,
    Issue,
    Loop,
    Order,
    Pass,
    Prepare,
    Record,
    Stage,
    Stages,
    Step,
    loop_of,
    stages_of,
)
from streamsim.program.offload import Offload, check_layers, loading, offload, one_by_one
from streamsim.program.patterns import breadth_first, build, depth_first, one_stream, prefetch, ring, serial, serialized
from streamsim.program.recorded_times import FIRST_TOUCH, UNKNOWN, RecordedLane, RecordedTimes
from streamsim.program.remembered import MOST, MOST_OPS, remembered
from streamsim.program.schedule import (
    LAUNCHES,
    LEGACY_STREAM,
    Buffer,
    Copy,
    CopyDirection,
    HostOp,
    HostWork,
    Kernel,
    Launch,
    MemoryKind,
    Op,
    RecordEvent,
    Region,
    Schedule,
    StreamKind,
    Synchronize,
    WaitEvent,
    WaitThread,
    check_schedule,
)
from streamsim.program.workload import ALIGN_BYTES, Part, Point, Workload, WorkloadKernel
from streamsim.program.workload_text import parse_kernel, per_element, workload_of_sizes
