"""The stages of `extempo demo` as one page of HTML that needs nothing but itself, for phones and dark rooms, too."""

from __future__ import annotations

from html import escape

from extempo._version import __version__
from extempo.cli.demo_stages import Block, Folded, Stage, Verbatim
from extempo.inspect import Table
from extempo.inspect.svg import Picture

_STYLE = """
:root { --ink: #1d2430; --faint: #5d6675; --paper: #f6f7f9; --card: #ffffff; --line: #e3e6eb; --accent: #1f6fb4;
  --code: #f1f3f6; --shape: #226b3a; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --faint: #9aa5b5; --paper: #12161c; --card: #1a2028; --line: #2c3541; --accent: #6db3f2;
    --code: #222a34; --shape: #7fd19b; }
  /* Pictures carry a light ground; turned round, they lie on the card, and hues stay what they are. */
  figure svg { filter: invert(1) hue-rotate(180deg); mix-blend-mode: lighten; }
}
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; color: var(--ink);
  background: var(--paper); margin: 0; }
header, main, footer { max-width: 62rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 3rem; } h1 { font-size: clamp(1.9rem, 5vw, 2.8rem); line-height: 1.15; margin: 0 0 0.6rem; }
.lead { font-size: 1.12rem; color: var(--faint); max-width: 44rem; margin: 0 0 1.2rem; }
nav { display: flex; flex-wrap: wrap; gap: 0.4rem; margin-bottom: 1.5rem; }
nav a { color: var(--accent); border: 1px solid var(--line); background: var(--card); border-radius: 999px;
  padding: 0.15rem 0.8rem; text-decoration: none; font-size: 0.9rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 0.4rem 1.4rem 1.2rem;
  margin: 0 0 1.2rem; } h2 { font-size: 1.3rem; margin: 1rem 0 0.3rem; }
.shapes, td, .epoch { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.shapes { color: var(--shape); font-size: 0.92rem; margin: 0 0 0.8rem; }
.scroll, figure, pre { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; margin: 0.8rem 0; font-size: 0.88rem; }
caption { text-align: left; color: var(--faint); padding-bottom: 0.2rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
td, th { padding: 0.2rem 1.1rem 0.2rem 0; border-bottom: 1px solid var(--line); text-align: left; white-space: pre; }
pre { background: var(--code); border-radius: 8px; padding: 0.8rem 1rem; font-size: 0.86rem; }
figure { margin: 1rem 0; } svg { border-radius: 8px; display: block; }
.epoch { white-space: pre-wrap; font-size: 0.88rem; margin: 0.9rem 0 0; }
.remark { color: var(--faint); margin: 0.1rem 0 0; }
summary { cursor: pointer; color: var(--accent); } footer { color: var(--faint); padding-bottom: 3rem; }
"""


def page(stages: list[Stage], seed: int) -> str:
    """The whole page: a section for each stage that has a title, with those without one that follow it."""
    sections: list[list[Stage]] = []
    for stage in stages:
        if stage.title or not sections:
            sections.append([])
        sections[-1].append(stage)
    links = "".join(f'<a href="#{_place(s)}">{escape(s[0].title)}</a>' for s in sections)
    body = "\n".join(f'<section id="{_place(s)}">\n{_section(s)}\n</section>' for s in sections)
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Extempo: from data to prediction</title><style>{_STYLE}</style>"
    )
    lead = (
        "A model for sequences of any length, from the first word to a prediction: plain Python for one sequence, a "
        "graph that forms as it runs, no padding."
    )
    told = f"Made by <code>extempo demo</code>, Extempo {escape(__version__)}, seed {seed}."
    hint = "Shapes in pictures say their values under the mouse."
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n'
        f'<header><h1>From data to prediction</h1>\n<p class="lead">{lead}</p>\n<nav>{links}</nav></header>\n'
        f"<main>\n{body}\n</main>\n<footer><p>{told} {hint}</p></footer>\n</body></html>\n"
    )


def _place(section: list[Stage]) -> str:
    return section[0].name


def _section(section: list[Stage]) -> str:
    """A title, shapes, and what there is to show."""
    parts = []
    for stage in section:
        if stage.title:
            parts.append(f"<h2>{escape(stage.title)}</h2>")
        if stage.before:
            parts.append(f'<p class="shapes">{escape(stage.before)} &rarr; {escape(stage.after)}</p>')
        parts += _epoch(stage) if stage.name == "epoch" else [_html(block) for block in stage.blocks]
    return "\n".join(parts)


def _epoch(stage: Stage) -> list[str]:
    """The figures of an epoch, and below them the remark."""
    line, *remarks = [str(block) for block in stage.blocks]
    return [f'<p class="epoch">{escape(line)}</p>', *(f'<p class="remark">{escape(r.strip())}</p>' for r in remarks)]


def _html(block: Block) -> str:
    if isinstance(block, Picture):
        return f"<figure>{block.svg()}</figure>"
    if isinstance(block, Folded):
        return f"<details><summary>{escape(block.title)}</summary><figure>{block.picture.svg()}</figure></details>"
    if isinstance(block, Table):
        return f'<div class="scroll">{block.html()}</div>'
    if isinstance(block, Verbatim):
        return f"<pre>{escape(block.text)}</pre>"
    return f"<p>{escape(block)}</p>"
