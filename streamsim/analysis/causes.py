"""What loses time: the causes, in words."""

from typing import Literal, NamedTuple, get_args

Key = Literal[
    "pageable-memory",
    "legacy-stream",
    "host-waits",
    "issue-order",
    "needless-order",
    "copied-once",
    "connections",
    "many-streams",
    "host-work",
    "slow-calls",
    "host-issue",
    "small-chunks",
    "duplex",
    "few-blocks",
    "few-chunks",
    "same-direction",
    "full-kernels",
    "unbalanced",
]
KEYS: tuple[Key, ...] = get_args(Key)


class Cause(NamedTuple):
    """Something that loses time, for people.

    ``meaning``: what happens, and what can be done about it beyond the remedies that are tried. ``otherwise``: what to
    do where no remedy can be made.
    """

    title: str
    meaning: str
    otherwise: str


CAUSES: dict[Key, Cause] = {
    "pageable-memory": Cause(
        "pageable host memory",
        "pageable copies are staged and hold the host: pin the host memory",
        "pin the host memory",
    ),
    "legacy-stream": Cause(
        "legacy default stream",
        "its ops and those of blocking streams wait for each other: give every kernel and copy a non-blocking stream",
        "issue its ops in non-blocking streams",
    ),
    "host-waits": Cause(
        "synchronising or blocking call",
        "the host waits for the card before it issues more: copy asynchronously, and wait as late and as seldom as the"
        " results allow",
        "allocate and free outside of the pipeline",
    ),
    "issue-order": Cause(
        "issue order",
        "an op that must wait blocks those that were issued after it",
        "the data allows no other order",
    ),
    "needless-order": Cause(
        "wait that serialises",
        "chunks wait for each other: give independent chunks streams and buffers of their own",
        "give independent chunks streams and buffers of their own",
    ),
    "copied-once": Cause(
        "copied once, before or after all chunks",
        "all chunks wait for one copy, or one copy waits for all: keep that array on the card from run to run, or copy"
        " each chunk its part",
        "keep it on the card from run to run, or copy each chunk its part",
    ),
    "connections": Cause(
        "more streams than connections",
        "streams share a hardware queue: use fewer streams",
        "the card has no more hardware queues",
    ),
    "many-streams": Cause(
        "more streams than pay",
        "each stream makes calls and hand-overs slower",
        "chunks are not in streams of their own",
    ),
    "host-work": Cause(
        "work of the host between its calls",
        "the card waits while the host works between its calls: do that beforehand, or in another thread, or capture"
        " the steady part as a graph",
        "do it beforehand, or in another thread",
    ),
    "slow-calls": Cause(
        "single calls that hold the host",
        "a single call holds the host far longer than its like: make it once before",
        "make them once before",
    ),
    "host-issue": Cause(
        "host issue cost",
        "the host's calls set the time: issue fewer and larger ops, or capture the steady part as a graph",
        "its calls cannot be captured in a graph; issue fewer and larger ops",
    ),
    "small-chunks": Cause(
        "chunks too small (latencies, hand-overs, kernel floor)",
        "what each op costs beside its work sets the time: issue fewer and larger ops",
        "these ops cannot be merged; issue larger ones",
    ),
    "duplex": Cause(
        "duplex contention",
        "both directions share the link, whatever the schedule: move fewer bytes",
        "both directions share the link, whatever the schedule; move fewer bytes",
    ),
    "few-blocks": Cause(
        "kernels of too few blocks",
        "they leave multiprocessors of the card without work: launch more blocks, or several such kernels side by side",
        "launch more blocks, or several such kernels side by side",
    ),
    "few-chunks": Cause(
        "too few chunks (fill and drain)",
        "the first copy in and the last copy out run alone: cut the work finer where it can be cut",
        "these ops cannot be cut finer",
    ),
    "same-direction": Cause(
        "same-direction copies that queue",
        "one direction carries one copy at a time, in any stream: move fewer bytes",
        "one direction carries one copy at a time, in any stream; move fewer bytes",
    ),
    "full-kernels": Cause(
        "kernels that fill the card",
        "kernels that fill the card cannot run side by side: make the kernels faster",
        "those that fill the card cannot run side by side; make the kernels faster",
    ),
    "unbalanced": Cause(
        "unbalanced pipeline (little to overlap with)",
        "the other stages hide behind the longest one: shorten that",
        "the others hide behind the longest stage; shorten that",
    ),
}
LIMITS: tuple[Key, ...] = ("same-direction", "full-kernels", "unbalanced")
# Removed after it: to blame for what is then left.
BEHIND: dict[Key, Key] = {
    "needless-order": "issue-order",
    "connections": "issue-order",
    "host-issue": "slow-calls",
}
