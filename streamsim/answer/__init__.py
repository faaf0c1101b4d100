"""Answers: one document of what a command or value says, and its renderers, which know no command.

``document`` holds the document. ``terminal``, ``markdown`` and ``html`` (pages and notebooks) render any answer.
``predictions``, ``changes``, ``searches``, ``recordings`` and ``values`` make the answers of results.
"""

from streamsim.answer.changes import diagnosis_answer, loop_answer, what_if_answer
from streamsim.answer.document import Answer, Pictures
from streamsim.answer.html import notebook_of, page_of, write_page
from streamsim.answer.markdown import markdown_of
from streamsim.answer.predictions import (
    explanation_answer,
    explanations_answer,
    lines_of,
    prediction_answer,
)
from streamsim.answer.recordings import choices_answer, recording_answer, replay_json
from streamsim.answer.searches import best_answer, longest_axes, rows_answer, scenarios_of, sweep_answer
from streamsim.answer.terminal import Terminal, open_console, show, text_of
from streamsim.answer.values import answer_of, findings_answer
