"""Diagnosis of a measured time: which of the usual mistakes makes a program take as long as it was measured to take."""

from streamsim.diagnosis.diagnose import (
    APART,
    AS_MEANT,
    CandidateProgram,
    Diagnosis,
    Measured,
    NextMeasurement,
    Range,
    diagnose,
)
from streamsim.diagnosis.mistakes import (
    MISTAKES,
    STOPPED_EARLY,
    Mistake,
    made,
    pairs,
)
