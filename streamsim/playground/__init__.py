"""The playground: a page with controls to drag, in which the model itself runs and answers."""

from streamsim.playground.played import CONTROLS, LESSONS, answer, played, playground_html, prediction_of
from streamsim.playground.pyodide import ARCHIVE, MSGSPEC, PINNED, PLATFORM, PYODIDE, SIMPY, read_browser_python
