"""Commands whose options are given once, and whose help fits a screen.

``--help`` has the options that most people need, in groups, and ``--help-all`` the rest.
"""

import os
import re
from itertools import pairwise
from typing import Any

import click

from streamsim.cli.printing import tell
from streamsim.errors import InputError

MOST_LINES = 40
MOST_COLUMNS = 100
# By heading the options that most people need, of all commands.
GROUPS = {
    "The work": ("h2d", "kernel", "d2h", "layers", "batch", "sample", "step", "load", "workers", "measured"),
    "How it is cut and issued": ("chunks", "streams", "order", "memory", "max_chunks", "max_streams"),
    "What is changed": ("pin", "async", "prefetch", "graph", "independent"),
    "The device": ("device", "profile"),
    "What is measured": ("suite", "front_ends", "budget", "kernels", "repeats"),
    "The result": ("form", "as_json", "all", "output", "language", "page", "explain", "fail_if", "fix"),
}
UNIT = re.compile(r"([kKMGT]?B|[kmgt]ib)(/s)?|[num\u00b5\u03bc]?s|[KMGT]i", re.ASCII | re.IGNORECASE)
EVERY = "streamsim.help_all"  # what a click context knows


def _show_all(context: click.Context, _param: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        context.meta[EVERY] = True
        tell(*context.get_help().splitlines())
        context.exit()


class BriefCommand(click.Command):
    """A command whose ``--help`` fits a screen, and whose ``--help-all`` says everything."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        how: dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False, "callback": _show_all}
        self.params.append(click.Option(["--help-all"], **how, help="Show every option and example."))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments. An option given twice is an error: click would take the last, without a word."""
        if not ctx.resilient_parsing:
            _check_units(args)
            _, _, given = self.make_parser(ctx).parse_args(list(args))
            options = [param for param in given if isinstance(param, click.Option)]
            once = [param for param in options if not (param.multiple or param.count or param.is_flag)]
            twice = next((param for param in once if once.count(param) > 1), None)
            if twice and not any(param.is_flag and param.is_eager for param in options):  # help is one
                raise click.UsageError(f"{twice.opts[0]}: given twice; give it once", ctx)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the whole help if it is short, and else what most people need."""
        whole = click.HelpFormatter(width=formatter.width)
        super().format_help(ctx, whole)
        text = whole.getvalue()
        if ctx.meta.get(EVERY) or text.count("\n") <= MOST_LINES:
            formatter.write(text)
            return
        self.format_usage(ctx, formatter)
        words = (self.help or "").strip()
        example = next((line for line in words.splitlines() if line.strip().startswith("streamsim")), "")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(words.partition("\n\n")[0])
            formatter.write_paragraph()
            formatter.write_text(f"\b\nExample:\n  {example.strip()}")
        records = {param.name: param.get_help_record(ctx) for param in self.get_params(ctx)}
        rows = {name: (record[0], _first_clause(record[1])) for name, record in records.items() if record}
        for heading, names in GROUPS.items():
            if shown := [rows.pop(name) for name in names if name in rows]:
                with formatter.section(heading):
                    formatter.write_dl(shown)
        formatter.write_paragraph()
        formatter.write_text(f"--help-all shows {len(rows)} more options, and more examples.")


def _first_clause(text: str) -> str:
    return re.split(r"[.;](?=\s|$)", text, maxsplit=1)[0]


def _check_units(arguments: list[str]) -> None:
    """Raise InputError for a quantity in two words, as in ``--h2d 200 MB``: the shell makes two arguments of it."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for number, unit in pairwise(own):
        if number[-1:].isdigit() and UNIT.fullmatch(unit) and not os.path.exists(unit):
            raise InputError(f"{number} {unit}: is in two words; write it as one: {number}{unit}")
