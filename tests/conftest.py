"""How the tests draw their examples.

The same ones at every run, so that a change passes or fails on its own account. To search further:
``pytest --hypothesis-profile=search``.
"""

from hypothesis import settings

settings.register_profile("repeat", derandomize=True)
settings.register_profile("search", max_examples=500)
settings.load_profile("repeat")
