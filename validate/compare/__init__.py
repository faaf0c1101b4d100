"""A record against the model: errors, drift, intervals, tolerances, tables. Needs no card."""
