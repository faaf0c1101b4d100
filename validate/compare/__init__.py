"""A record against the model: errors, intervals, tables. Needs no card."""

from streamsim_validate.compare.comparison import (
    BLOCKING,
    DEVICE_BOUND,
    HOST_BOUND,
    PAGEABLE,
    Comparison,
    Row,
    comparison_answer,
    percentile95,
)
from streamsim_validate.compare.predictions import (
    Expected,
    Profiles,
    by_class,
    compare,
    expectations,
    predict_device_s,
    profiles_of,
    row_of,
    worst_line,
)
