"""Device profiles: the numbers of a card, its link and its host; the shipped profiles; changed profiles."""

from streamsim.device.assumptions import PUBLISHED_WITHIN, known_within, link_words, within_words
from streamsim.device.fields import SLOWEST_BYTES_PER_S, Field, FieldSpec, SameAs, Table, fields_of
from streamsim.device.files import dump_device, parse_device, read_device, without_retired, write_device
from streamsim.device.front_end_calls import HOST_TIMES, IN_LOOPS, TIMES, FrontEnd
from streamsim.device.front_ends import (
    COMPILED,
    LINEAR,
    front_end_names,
    front_end_of,
    shipped_front_ends,
    with_front_end,
    written_in,
)
from streamsim.device.generations import (
    GENERATIONS,
    OTHER_LINKS,
    as_recorded,
    assumptions_of,
    generation_of,
    link_limit,
    made_profile,
    profile_named,
)
from streamsim.device.kernel_costs import KernelCost, bends, part_s
from streamsim.device.library import as_device, device_names, digest_of, load_device, names_front_end, own_device_names
from streamsim.device.profile import (
    ARBITRATIONS,
    EFFECTS,
    MOST_CONNECTIONS,
    RETIRED,
    SOURCE_KINDS,
    Arbitration,
    Compute,
    CopyEngines,
    Device,
    HandOver,
    Host,
    KernelUse,
    LinkDirection,
    left_out,
    number_names,
    number_of,
    tables_of,
)
from streamsim.device.recorders import LARGEST_RATIO, PYTORCH, SHAPES, STACK, Recorder, recorder_of
from streamsim.device.schemas import KINDS, schema
from streamsim.device.settings import (
    DIRECTIONS,
    current,
    full_name,
    names,
    parse_settings,
    parser_of,
    split_setting,
    targets_of,
)
from streamsim.device.variations import (
    AS_SET,
    changed,
    faster,
    mean_of,
    multiplied,
    with_call_cost,
    with_memory_limit,
    with_values,
    without,
)
