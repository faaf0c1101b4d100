"""What a prediction says: bounds, formulas, intervals, and the causes of lost time.

``predict`` stands at the door. ``bounds`` are the model's own, ``formulas`` those that others have published. Lost time
is split over its causes by simulations without them (``losses``).
"""

from streamsim.analysis.bounds import (
    BOUND_AS_ISSUED,
    BOUND_OF_WORK,
    BUSIEST_ENGINE,
    Bound,
    bound_json,
    chunk_bounds,
    lower_bound,
    work_bound,
)
from streamsim.analysis.formulas import FORMULA_WORDS, published
from streamsim.analysis.intervals import Interval, interval, intervals_of, works_in
from streamsim.analysis.losses import CAUSES, Key, Removals, has_few_connections, loads_of, split_of
from streamsim.analysis.predict import Prediction, SerialProgram, predict
from streamsim.analysis.workloads import check_room, kernel_assumptions, remedy, timed_alone
