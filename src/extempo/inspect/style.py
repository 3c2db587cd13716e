"""The one look of every report's HTML: colours for light and dark rooms as CSS variables, and a page around a body.

A report that stands alone is `page(title, body)`; a fragment that a notebook shows brings `fragment(body)`, whose rules
reach nothing outside of it. Neither needs anything but itself: no fonts, no scripts, no files from elsewhere.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .svg import Picture

FONT = 'system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif'
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"

_LIGHT = {
    "ink": "#1d2430",
    "faint": "#5d6675",
    "paper": "#f6f7f9",
    "card": "#ffffff",
    "line": "#e3e6eb",
    "code": "#f1f3f6",
    "accent": "#1f6fb4",
    "good": "#226b3a",
    "warn": "#9a5b00",
    "bad": "#b3261e",
}
_DARK = {
    "ink": "#e4e8ee",
    "faint": "#9aa5b5",
    "paper": "#12161c",
    "card": "#1a2028",
    "line": "#2c3541",
    "code": "#222a34",
    "accent": "#6db3f2",
    "good": "#7fd19b",
    "warn": "#f0b45a",
    "bad": "#ff8a80",
}


def variables(selector: str = ":root", light: dict[str, str] | None = None, dark: dict[str, str] | None = None) -> str:
    """CSS that sets `--ink`, `--faint` and so on below a selector; `light` and `dark` add more of them."""

    def rule(colours: dict[str, str]) -> str:
        return f"{selector} {{ {' '.join(f'--{name}: {value};' for name, value in colours.items())} }}"

    bright, dim = rule({**_LIGHT, **(light or {})}), rule({**_DARK, **(dark or {})})
    return f"{bright}\n@media (prefers-color-scheme: dark) {{ {dim} }}\n"


_RULES = f"""
.x {{ font: 15px/1.5 {FONT}; color: var(--ink); background: var(--paper); }}
.x * {{ box-sizing: border-box; }}
.x h1 {{ font-size: 1.7rem; line-height: 1.2; margin: 0 0 0.5rem; }}
.x h2 {{ font-size: 1.2rem; margin: 1.4rem 0 0.4rem; }}
.x h3, .x h4 {{ font-size: 1rem; margin: 1rem 0 0.3rem; }}
.x p {{ margin: 0.4rem 0; }}
.x a {{ color: var(--accent); }}
.x table {{ border-collapse: collapse; margin: 0.6rem 0; font: 0.87rem/1.45 {MONO}; background: var(--card);
  color: var(--ink); display: block; overflow-x: auto; width: fit-content;
  max-width: 100%; border: 0; border-radius: 6px; }}
.x caption {{ text-align: left; color: var(--faint); padding: 0.2rem 0; }}
.x th, .x td {{ padding: 0.2rem 0.9rem 0.2rem 0; border: 0; border-bottom: 1px solid var(--line); text-align: left;
  white-space: pre; background: none; color: inherit; }}
.x th:first-child, .x td:first-child {{ padding-left: 0.8rem; }}
.x tr:last-child td {{ border-bottom: 0; }}
.x th {{ color: var(--faint); font-weight: 600; }}
.x .number {{ text-align: right; font-variant-numeric: tabular-nums; }}
.x code, .x pre {{ font-family: {MONO}; font-size: 0.87rem; background: var(--code); border-radius: 4px; }}
.x code {{ padding: 0.05rem 0.3rem; }}
.x pre {{ padding: 0.7rem 0.9rem; overflow-x: auto; color: var(--ink); }}
.x figure {{ margin: 0.8rem 0; overflow-x: auto; max-width: 100%; }}
.x figure svg {{ max-width: 100%; height: auto; border-radius: 6px; }}
.x summary {{ cursor: pointer; color: var(--accent); }}
.x .card {{ background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 0.6rem 1.1rem;
  margin: 0 0 1rem; overflow-x: auto; }}
.x .faint {{ color: var(--faint); }} .x .good {{ color: var(--good); }}
.x .warn {{ color: var(--warn); }} .x .bad {{ color: var(--bad); }}
"""


def page(title: str, body: str, *, style: str = "", script: str = "", wide: bool = False) -> str:
    """A whole page, for phones and dark rooms, too. `wide`: the body has the window to itself, without margins."""
    room = "margin: 0;" if wide else "max-width: 64rem; margin: 0 auto; padding: 1.6rem 1.1rem 3rem;"
    css = f"{variables()}:root {{ color-scheme: light dark; background: var(--paper); }}\nbody {{ {room} }}\n"
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{css}{_RULES}{style}</style>"
    )
    code = f"\n<script>{script}</script>" if script else ""
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body class="x">\n{body}{code}\n</body></html>\n'


def fragment(body: str) -> str:
    """The same look for a notebook: rules that hold inside of it only."""
    return f'<div class="x" style="background:none"><style>{variables(".x")}{_RULES}</style>{body}</div>'


# Pictures carry a light ground; turned round, they lie on the card, and hues stay what they are.
_PICTURES = """
@media (prefers-color-scheme: dark) {
  .x figure.light svg { filter: invert(1) hue-rotate(180deg); mix-blend-mode: lighten; }
}
"""


def figure(picture: Picture) -> str:
    """A picture with a light ground, for light and dark rooms."""
    return f'<figure class="light"><style>{_PICTURES}</style>{picture.svg()}</figure>'
