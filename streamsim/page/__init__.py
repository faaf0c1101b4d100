"""Pages to look at: one HTML file that a browser opens from disk, with the viewer and all that it shows inside.

``viewer`` holds the viewer's own files, ``document`` puts a page together, ``timelines`` and ``columns`` pack what the
viewer draws, and ``pages`` says what each kind of result shows.
"""
