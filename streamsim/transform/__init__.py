"""The same work issued in another way: each change of a program makes a schedule that could be run in its place.

``changes`` are all of them by name, each of a ``scenario``: a program and its device.
``dependences`` says what ops need of each other: by streams and events (``stream_order``) and by data (``data_flow``),
which also says which ops make a chunk; ``shared_ranges`` are what all chunks read. ``steps`` says which ops make a step
if no memory is named, and ``chunks`` chooses between the two. ``recut`` deals chunks out, cuts and merges them,
``pieces`` cuts and joins single ops, ``issue`` puts ops into a sequence and streams, and ``repairs`` keeps them free of
races. ``calls_and_memory`` changes how the host calls and where its memory is, ``step_graphs`` captures parts. A
``repeated_step`` is a program read as a workload again.
"""
