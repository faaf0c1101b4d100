"""Pages to look at: one HTML file that a browser opens from disk, with the viewer and all that it shows inside.

``viewer`` holds the viewer's own files, ``document`` puts a page together, ``timelines`` and ``columns`` pack what the
viewer draws, and ``pages`` says what each kind of result shows.
"""

from streamsim.page.columns import packed
from streamsim.page.document import Page, write_page
from streamsim.page.losses import losses_of
from streamsim.page.maps import check_rows
from streamsim.page.pages import explanation_page, prediction_page, side_by_side_page
from streamsim.page.played import CONTROLS, LESSONS, answer, played, prediction_of
from streamsim.page.playground import playground_html
from streamsim.page.pyodide import ARCHIVE, MSGSPEC, PINNED, PLATFORM, PYODIDE, SIMPY, read_browser_python
from streamsim.page.searches import best_page, longest_axes, scenarios_of
from streamsim.page.timelines import BECAUSE, Shown, line_data
