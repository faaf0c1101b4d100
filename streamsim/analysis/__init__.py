"""What a prediction says: bounds, formulas, intervals, and the causes of lost time.

``predict`` stands at the door. ``bounds`` are the model's own, ``formulas`` those that others have published. Lost time
is split over its causes by simulations without them (``losses``).
"""

from streamsim.analysis.bounds import (
    BOUND_AS_ISSUED,
    BOUND_OF_WORK,
    BUSIEST_ENGINE,
    CHAIN,
    HOST,
    LINK,
    Bound,
    Flow,
    bound_json,
    chunk_bounds,
    duplex_bound,
    lower_bound,
    work_bound,
)
from streamsim.analysis.formulas import (
    FORMULA_WORDS,
    best_practices,
    gomez_luna,
    napkin,
    published,
    simple_multi_copy,
    van_werkhoven,
    van_werkhoven_transfer,
)
from streamsim.analysis.intervals import (
    MISSED_S,
    Interval,
    drawn_times_s,
    draws,
    feels_the_order,
    interval,
    intervals,
    missed,
    served_in_order,
    shared_queues,
    works_in,
)
from streamsim.analysis.losses import (
    BEHIND,
    CAUSES,
    Key,
    Removals,
    has_few_connections,
    loads_of,
    mean_gains,
    split_of,
)
from streamsim.analysis.predict import Prediction, SerialProgram, predict
from streamsim.analysis.workloads import check_room, kernel_assumptions, remedy, shown_s, timed_alone
