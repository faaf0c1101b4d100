"""Answers: one document of what a command or value says, and its renderers, which know no command.

``document`` holds the document and its renderers. ``predictions``, ``changes``, ``searches``, ``recordings`` and
``values`` make the answers of results.
"""

from streamsim.answer.changes import diagnosis_answer, loop_answer, what_if_answer
from streamsim.answer.document import (
    Answer,
    Pictures,
    Terminal,
    markdown_of,
    notebook_of,
    open_console,
    page_of,
    show,
    text_of,
    write_page,
)
from streamsim.answer.predictions import explanation_answer, lines_of, prediction_answer
from streamsim.answer.recordings import choices_answer, recording_answer, replay_json
from streamsim.answer.searches import best_answer, longest_axes, rows_answer, scenarios_of, sweep_answer
from streamsim.answer.values import answer_of, findings_answer
