"""A record against the model: errors, what moved meanwhile, intervals, tolerances, tables. Needs no card."""

from streamsim_validate.compare.comparison import (
    BLOCKING,
    DEVICE_BOUND,
    HOST_BOUND,
    PAGEABLE,
    Comparison,
    Row,
    in_percent,
    percentile95,
)
from streamsim_validate.compare.coverage import (
    Coverage,
    Expected,
    Verdict,
    by_class,
    expectations,
    judge,
    parse_tolerance,
)
from streamsim_validate.compare.predictions import Profiles, compare, predict_device_s, profiles_of, row_of, time_lines
from streamsim_validate.compare.tables import comparison_answer, comparisons_answer
