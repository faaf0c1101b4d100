"""The viewer of pages, and what it shows: one HTML file that a browser opens from disk.

``viewer`` holds the viewer's own files, ``document`` the HTML around what it draws. ``timelines`` and ``maps`` pack
what it draws.
"""

from streamsim.page.document import (
    WITH_PYTHON,
    buttons_html,
    choice_html,
    document_of,
    filled,
    headline_html,
    lines_html,
    losses_html,
    map_html,
    viewer_text,
)
from streamsim.page.maps import Map, check_rows, column_words, map_data, map_of, spread, value_words
from streamsim.page.timelines import BECAUSE, Beside, Shown, deflated, line_data, packed
