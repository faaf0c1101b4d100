"""The records in which the calls of programs are looked for."""

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "validate" / "records"
RECORDS = {
    "H100, 1": "random-h100-1",
    "H100, 2": "random-h100-2",
    "H200, 1": "random-h200-1",
    "H200, 2": "random-h200-2",
    "suite, 1": "standard-h200-1",
    "suite, 2": "standard-h200-2",
}
