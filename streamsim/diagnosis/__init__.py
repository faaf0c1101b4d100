"""Diagnosis of a measured time: which of the usual mistakes makes a program take as long as it was measured to take."""

from streamsim.diagnosis.diagnose import (
    APART,
    AS_MEANT,
    MISTAKES,
    STOPPED_EARLY,
    CandidateProgram,
    Diagnosis,
    Measured,
    Mistake,
    Range,
    diagnose,
    made,
    pairs,
)
