"""The same work issued in another way: each change of a program makes a schedule that could be run in its place.

``changes`` are all of them by name, each of a ``scenario``: a program and its device.
``dependences`` says what ops need of each other and which make a chunk, ``steps`` which make a step where no memory is
named, ``chunks`` chooses between the two. ``recut`` deals chunks out, cuts and merges them, ``pieces`` cuts single ops,
``calls_and_memory`` changes how the host calls and where its memory is, ``step_graphs`` captures parts. A
``repeated_step`` is a program read as a workload again.
"""
