"""A record against the model: errors, what moved meanwhile, intervals, tolerances, tables. Needs no card."""

from streamsim_validate.compare.clocks import predict_device_s
from streamsim_validate.compare.comparison import Comparison, percentile95
from streamsim_validate.compare.coverage import Coverage, Expected, by_class, expectations
from streamsim_validate.compare.pages import comparison_page
from streamsim_validate.compare.predictions import compare, row_of, time_lines
from streamsim_validate.compare.profiles import Profiles, profiles_of
from streamsim_validate.compare.rows import BLOCKING, DEVICE_BOUND, HOST_BOUND, PAGEABLE, Row, in_percent
from streamsim_validate.compare.tables import drawn_time_lines, sections, side_by_side, to_rows
from streamsim_validate.compare.tolerance import Verdict, judge, parse_tolerance
