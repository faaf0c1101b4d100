"""Help that fits a screen: ``--help`` has the options that most people need, in groups, and ``--help-all`` the rest."""

import re
from collections.abc import Iterator
from typing import Any

import click

from streamsim.cli.printing import tell

MOST_LINES = 40
MOST_COLUMNS = 100
EXAMPLES = 1  # in the brief help
# By heading the options that most people need, of all commands.
GROUPS = {
    "The work": ("h2d", "kernel", "d2h", "layers", "batch", "sample", "step", "load", "workers", "measured"),
    "How it is cut and issued": ("chunks", "streams", "order", "buffers", "memory", "max_chunks", "max_streams"),
    "The device": ("device", "settings", "memory_limit", "profile"),
    "What is measured": ("suite", "front_ends", "budget", "kernels", "repeats"),
    "The result": ("form", "as_json", "all", "output", "language", "plot", "page", "explain", "fail_if", "fix"),
}


class BriefCommand(click.Command):
    """A command whose ``--help`` fits a screen, and whose ``--help-all`` says everything."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_show_all,
                help="Show every option and example.",
            )
        )

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the whole help if it is short, and else what most people need."""
        whole = click.HelpFormatter(width=formatter.width)
        super().format_help(ctx, whole)
        text = whole.getvalue()
        if ctx.meta.get(_show_all.__name__) or text.count("\n") <= MOST_LINES:
            formatter.write(text)
            return
        self.format_usage(ctx, formatter)
        first, examples = _parts(self.help or "")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(first)
            if examples:
                formatter.write_paragraph()
                formatter.write_text("\b\nExample:\n" + "\n".join(f"  {line}" for line in examples[:EXAMPLES]))
        shown = 0
        for heading, names in GROUPS.items():
            rows = [row for param in self._named(ctx, names) for row in _row(ctx, param)]
            shown += len(rows)
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)
        left = sum(1 for param in self.get_params(ctx) if _row(ctx, param)) - shown
        formatter.write_paragraph()
        formatter.write_text(f"--help-all shows {left} more options, and more examples.")

    def _named(self, ctx: click.Context, names: tuple[str, ...]) -> Iterator[click.Parameter]:
        known = {param.name: param for param in self.get_params(ctx)}
        return (known[name] for name in names if name in known)


def _show_all(context: click.Context, _param: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        context.meta[_show_all.__name__] = True
        tell(*context.get_help().splitlines())
        context.exit()


def _row(ctx: click.Context, param: click.Parameter) -> list[tuple[str, str]]:
    """Return the names of an option and the first clause of its help; nothing for an argument or a hidden option."""
    record = param.get_help_record(ctx)
    return [] if record is None else [(record[0], re.split(r"[.;](?=\s|$)", record[1], maxsplit=1)[0])]


def _parts(text: str) -> tuple[str, list[str]]:
    """Return the first paragraph of a command's help, and its examples."""
    first = text.strip().partition("\n\n")[0]
    return first, [line.strip() for line in text.splitlines() if line.strip().startswith(("streamsim ", "streamsim-"))]
