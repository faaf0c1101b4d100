"""What a prediction says: bounds, formulas, intervals, the causes of lost time, their remedies, what changes bring.

``predict`` stands at the door. ``bounds`` are the model's own, ``formulas`` those that others have published.
``explain`` splits lost time over ``causes``, by simulations without them (``removals``) of programs changed
(:mod:`streamsim.transform`) or counterfactual, and works out their ``shapley`` values and the ``engine_loads``;
``remedies`` are changes that can be made, and ``what_if`` says what any of them brings.
"""

from streamsim.analysis.advice import WORTH, advise
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
    bound_of,
    duplex_bound,
    lower_bound,
)
from streamsim.analysis.causes import BEHIND, CAUSES, KEYS, LIMITS, Assuming, Loss, Together
from streamsim.analysis.counterfactual import without_latencies
from streamsim.analysis.explain import explain
from streamsim.analysis.explanation import LOSS_FIELDS, Explanation
from streamsim.analysis.formulas import (
    FORMULA_WORDS,
    Stages,
    best_practices,
    gomez_luna,
    napkin,
    published,
    published_of,
    simple_multi_copy,
    stages_of,
    van_werkhoven,
    van_werkhoven_transfer,
)
from streamsim.analysis.intervals import (
    LEVEL,
    MISSED_S,
    Interval,
    drawn_times_s,
    draws,
    feels_the_order,
    interval,
    intervals,
    missed,
    order_among,
    served_in_order,
    shared_queues,
    standard_misses,
    works_in,
)
from streamsim.analysis.predict import ELSEWHERE, Prediction, SerialProgram, WithoutRing, predict, without_ring
from streamsim.analysis.remedies import FACTORS, STREAMS, Remedies
from streamsim.analysis.removals import Removals
from streamsim.analysis.shapley import in_turn, mean_gains
from streamsim.analysis.what_if import Outcome, WhatIf, what_if
from streamsim.analysis.work_bound import chunk_bounds, work_bound
from streamsim.analysis.workloads import check_room, kernel_assumptions, remedy, shown_s, timed_alone
