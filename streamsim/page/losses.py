"""The losses of an explained schedule: a bar of amounts of time, and below it each cause, which opens to its remedy."""

from streamsim.report import Losses, Part, in_html
from streamsim.text import format_seconds, format_share

HEIGHT = 34  # of the bar, in pixels
LEAST_NUMBERED = 0.025  # the least share of the bar that has room for a number


def losses_html(losses: Losses) -> str:
    """Return the bar and the causes as HTML."""
    whole = losses.whole_s or 1.0
    bars, items, at = [], [], 0.0
    for number, part in enumerate(losses.parts):
        share = part.seconds / whole
        bars.append(_bar(number, part, at, share, losses.within))
        items.append(_item(number, part, share, losses.within))
        at += share
    words = "; ".join(f"{part.title}: {format_seconds(part.seconds, losses.within)}" for part in losses.parts)
    return "\n".join(
        (
            "<section><h2>Where the time goes</h2>",
            "<p class='soft'>Amounts, not moments: a cause may lose its time in many places. Open one for its"
            " remedy.</p>",
            f'<svg class="losses" role="img" aria-label="{in_html(words)}">{"".join(bars)}</svg>',
            *items,
            "</section>",
        )
    )


def _bar(number: int, part: Part, at: float, share: float, within: float) -> str:
    shape = f'<rect x="{at:.3%}" y="0" width="{share:.3%}" height="{HEIGHT}" fill="{part.colour}"/>'
    named = f'<text x="{at + share / 2:.3%}" y="22" text-anchor="middle" fill="#000">{number}</text>'
    words = f"<title>{in_html(part.title)}: {format_seconds(part.seconds, within)}</title>"
    return f"<g>{words}{shape}{named if number and share > LEAST_NUMBERED else ''}</g>"


def _item(number: int, part: Part, share: float, within: float) -> str:
    swatch = f'<svg viewBox="0 0 14 12" aria-hidden="true"><rect width="14" height="12" fill="{part.colour}"/></svg>'
    name = f"{number} {part.title}" if number else part.title
    summary = f"{swatch}{in_html(name)}: <b>{format_seconds(part.seconds, within)}</b>, {format_share(share, within)}"
    return f"<details><summary>{summary}</summary><p>{in_html(part.remedy)}</p></details>"
