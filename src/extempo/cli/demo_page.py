"""The stages of `extempo demo` as one page of HTML that needs nothing but itself."""

from __future__ import annotations

from html import escape

from extempo._version import __version__
from extempo.cli.demo_stages import Block, Stage, Verbatim
from extempo.inspect import Table
from extempo.inspect.svg import Picture

_STYLE = """
body { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; color: #222; background: #fff;
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; } .shapes { color: #2b6a3a; font-family: ui-monospace, monospace; }
table { border-collapse: collapse; margin: 0.8rem 0; font-size: 0.9rem; } caption { text-align: left; }
td, th { padding: 0.15rem 0.9rem 0.15rem 0; border-bottom: 1px solid #e4e4e4; text-align: left; white-space: pre; }
td { font-family: ui-monospace, monospace; }
pre { background: #f6f6f6; padding: 0.7rem; overflow-x: auto; font-size: 0.85rem; }
figure { margin: 1rem 0; overflow-x: auto; } svg { border: 1px solid #e4e4e4; border-radius: 4px; }
"""


def page(stages: list[Stage], seed: int) -> str:
    """The whole page."""
    parts = []
    for stage in stages:
        if stage.title:
            parts.append(f"<h2>{escape(stage.title)}</h2>")
        if stage.before:
            parts.append(f'<p class="shapes">{escape(stage.before)} &rarr; {escape(stage.after)}</p>')
        parts += [_html(block) for block in stage.blocks]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Extempo: from data to prediction</title><style>{_STYLE}</style>"
    )
    body = "\n".join(parts)
    told = f"<p>Extempo {escape(__version__)}, seed {seed}. Words in a picture's shapes appear under the mouse.</p>"
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n'
        f"<body><h1>From data to prediction</h1>\n{told}\n{body}\n</body></html>\n"
    )


def _html(block: Block) -> str:
    if isinstance(block, Picture):
        return f"<figure>{block}</figure>"
    if isinstance(block, Table):
        return block.html()
    if isinstance(block, Verbatim):
        return f"<pre>{escape(block.text)}</pre>"
    return f"<p>{escape(block)}</p>"
