"""The compute engine, on records: kernels that run side by side, and kernels that drain.

The rules are those of ``streamsim.model.compute_engine``.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# numba infers the types of what is compiled.

from streamsim.compiled.numba_code import inlined, rule, uintp
from streamsim.rules import FULL_CARD, NEVER, link, side_by_side

given, warps, suffices = rule(side_by_side.given), rule(side_by_side.warps), rule(side_by_side.suffices)
by_warps, ticks_for = rule(side_by_side.by_warps), rule(link.ticks_for)


@inlined
def _give(kernel, share, now):
    """Give a kernel this share of the card from now on."""
    if share != kernel.given:
        kernel.left -= kernel.given * (now - kernel.since)
        kernel.since = now
        kernel.given = share
        kernel.end = now + ticks_for(kernel.left, share)


@inlined
def _share(running, n, now, shapes):
    """Divide the card among its kernels; return the room for one more, and the tick at which one's work is done."""
    end, room, held, shares = NEVER, FULL_CARD, 0, False
    for k in range(n):
        shares |= shapes[uintp(running[uintp(k)].shape)].resident > 0
    if shares:
        room = _share_by_warps(running, n, now, shapes)
    for k in range(n):
        kernel = running[uintp(k)]
        if not shares:
            shape = shapes[uintp(kernel.shape)]
            held += shape.threads
            share = given(shape.width, shape.threads, shape.idle, room, held)
            _give(kernel, share, now)
            room -= share
        end = min(end, kernel.end)
    return room, end


@inlined
def _share_by_warps(running, n, now, shapes):
    """Divide the card by warps, and what a kernel cannot use among the others; return the room for threads."""
    room, held = FULL_CARD, 0
    for k in range(n):
        kernel = running[uintp(k)]
        shape = shapes[uintp(kernel.shape)]
        kernel.warps = warps(shape.resident if shape.resident else shape.threads, held)
        held += kernel.warps
    free = max(0, FULL_CARD - held)
    settles = True
    while settles:
        settles = False
        for k in range(n):
            kernel = running[uintp(k)]
            width = shapes[uintp(kernel.shape)].width
            if kernel.warps and suffices(width, kernel.warps, room, held):
                room -= width
                held -= kernel.warps
                kernel.warps = 0
                _give(kernel, width, now)
                settles = True
    for k in range(n):
        kernel = running[uintp(k)]
        if kernel.warps:
            _give(kernel, by_warps(kernel.warps, room, held), now)
    return free


@inlined
def start_kernel(running, n, op, row, now, shapes):
    """Put a kernel on the card beside ``n`` others; return the room left, and the tick at which one's work is done."""
    kernel, shape = running[uintp(n)], shapes[uintp(row)]
    works = shape.duration - shape.drain
    kernel.op = op
    kernel.shape = row
    kernel.since = now
    kernel.left = works * shape.width
    if n == 0:  # it has the card to itself
        kernel.given, kernel.end = shape.width, now + works
        return FULL_CARD - (shape.resident if shape.resident else shape.width), kernel.end
    kernel.given = 0
    return _share(running, n + 1, now, shapes)


@inlined
def _drain(draining, first, last, op, tick):
    """Note when a kernel whose work is done will end, in draining[first:last], the next to end first.

    Kernels of one shape drain for the same time, so kernels are seldom moved.
    """
    k = last
    while k > first and draining[uintp(k - 1)].tick > tick:
        draining[uintp(k)].op, draining[uintp(k)].tick = draining[uintp(k - 1)].op, draining[uintp(k - 1)].tick
        k -= 1
    draining[uintp(k)].op, draining[uintp(k)].tick = op, tick


@inlined
def finish_kernels(running, n, now, draining, first, last, shapes):
    """Take the kernels whose work is done off the card, and put them into draining[first:last].

    Return the number of kernels that stay, the two results of start_kernel, and the new ``last``.
    """
    if n == 1:
        _drain(draining, first, last, running[0].op, now + shapes[uintp(running[0].shape)].drain)
        return 0, FULL_CARD, NEVER, last + 1
    kept = 0
    for k in range(n):
        kernel = running[uintp(k)]
        if kernel.end <= now:
            _drain(draining, first, last, kernel.op, now + shapes[uintp(kernel.shape)].drain)
            last += 1
        else:
            if kept < k:
                place = running[uintp(kept)]
                place.op, place.shape, place.since = kernel.op, kernel.shape, kernel.since
                place.given, place.end, place.left = kernel.given, kernel.end, kernel.left
            kept += 1
    room, end = _share(running, kept, now, shapes)
    return kept, room, end, last


@inlined
def next_drained(draining, first, last):
    """Return the tick at which the next draining kernel ends, or NEVER."""
    return draining[uintp(first)].tick if first < last else NEVER
