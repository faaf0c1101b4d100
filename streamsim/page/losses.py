"""The losses of an explained schedule: a bar of amounts of time, and below it each cause, which opens to its remedy."""

from streamsim.report import Losses, in_html
from streamsim.text import format_seconds, format_share

LEAST_NUMBERED = 0.025  # the least share of the bar that has room for a number
HEAD = (
    "<section><h2>Where the time goes</h2><p class='soft'>Amounts, not moments: a cause may lose its time in many"
    " places. Open one for its remedy.</p>"
)


def losses_html(losses: Losses) -> str:
    """Return the bar and the causes as HTML."""
    bars, items, words, at = "", "", [], 0.0
    for number, part in enumerate(losses.parts):
        seconds, share = format_seconds(part.seconds, losses.within), part.seconds / (losses.whole_s or 1.0)
        title, fill = in_html(part.title), f'fill="{part.colour}"'
        words.append(f"{title}: {seconds}")
        bars += f'<g><title>{words[-1]}</title><rect x="{at:.3%}" width="{share:.3%}" height="100%" {fill}/>'
        if number and share > LEAST_NUMBERED:
            bars += f'<text x="{at + share / 2:.3%}" y="22" text-anchor="middle" fill="#000">{number}</text>'
        bars += "</g>"
        swatch = f'<svg viewBox="0 0 14 12" aria-hidden="true"><rect width="14" height="12" {fill}/></svg>'
        name = f"{swatch}{f'{number} ' if number else ''}{title}: <b>{seconds}</b>"
        said = f"{name}, {format_share(share, losses.within)}"
        items += f"<details><summary>{said}</summary><p>{in_html(part.remedy)}</p></details>"
        at += share
    return f'{HEAD}<svg class="losses" role="img" aria-label="{"; ".join(words)}">{bars}</svg>{items}</section>'
