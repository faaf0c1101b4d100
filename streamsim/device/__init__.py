"""Device profiles: the numbers of a card, its link and its host; the shipped profiles; changed profiles."""

from streamsim.device.assumptions import PUBLISHED_WITHIN, known_within, link_words, within_words
from streamsim.device.fields import SLOWEST_BYTES_PER_S, Field, FieldSpec, SameAs, Table, fields_of
from streamsim.device.front_ends import (
    CALLS,
    COMPILED,
    LINEAR,
    front_end_names,
    front_end_of,
    recorder_of,
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
    profile_from_name,
    profile_named,
)
from streamsim.device.host_calls import (
    HOST_TIMES,
    IN_LOOPS,
    LARGEST_RATIO,
    PYTORCH,
    SHAPES,
    STACK,
    TIMES,
    FrontEnd,
    Recorder,
)
from streamsim.device.kernel_costs import KernelCost, bends, part_s
from streamsim.device.library import (
    KINDS,
    as_device,
    device_names,
    digest_of,
    dump_device,
    load_device,
    names_front_end,
    own_device_names,
    parse_device,
    read_device,
    schema,
    without_retired,
    write_device,
)
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
from streamsim.device.variations import (
    AS_SET,
    DIRECTIONS,
    changed,
    current,
    faster,
    full_name,
    mean_of,
    multiplied,
    names,
    parse_settings,
    parser_of,
    split_setting,
    targets_of,
    with_memory_limit,
    with_values,
    without,
)
