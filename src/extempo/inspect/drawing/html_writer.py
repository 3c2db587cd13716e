"""A diagram as one page of HTML that needs nothing but itself: `viewer.js`, what it shows, and code around lines."""

from __future__ import annotations

import json
import linecache
from collections.abc import Collection
from html import escape
from pathlib import Path
from typing import Any

from ..style import page, variables
from . import layout
from .model import Diagram, Item

AROUND = 4  # lines of code, above and below
CONSTANTS = (
    *("GAP_X", "GAP_Y", "PADDING", "HEADER", "LANE", "CARRY", "LONGEST"),
    *("CHARACTER", "SMALL_CHARACTER", "PILL_HEIGHT", "PILL_GAP", "N_SWEEPS"),
)
_COLOURS_LIGHT = {
    "edge": "#8a93a3", "frame": "#c9d0da", "frame-face": "#f1f3f8", "face": "#ffffff", "border": "#a8b0bd",
    "input-face": "#eaf5ec", "input": "#2b8a3e", "folded-face": "#e9edf7", "folded": "#7484a8",
    "pill-face": "#e3eefa", "grad": "#c2571a", "bad-face": "#fdecea", "added-face": "#e3f4e6",
    "changed-face": "#fdf1d8",
}  # fmt: skip
_COLOURS_DARK = {
    "edge": "#7d8899", "frame": "#3a4553", "frame-face": "#171d25", "face": "#232b36", "border": "#566274",
    "input-face": "#1d3325", "input": "#6fbf86", "folded-face": "#28324a", "folded": "#7f92c2",
    "pill-face": "#1c3248", "grad": "#f0955a", "bad-face": "#43201e", "added-face": "#1d3a26",
    "changed-face": "#40331a",
}  # fmt: skip
_STYLE = """
html, body { height: 100%; } body { display: flex; flex-direction: column; overflow: hidden; }
#bar { display: flex; flex-wrap: wrap; gap: 0.35rem 0.5rem; align-items: center; padding: 0.45rem 0.8rem;
  border-bottom: 1px solid var(--line); background: var(--card); }
#bar h1 { font-size: 1rem; margin: 0 auto 0 0; min-width: 0; max-width: 100%; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
#bar p { margin: 0; flex-basis: 100%; font-size: 0.82rem; order: 9; }
.x button, #search { font: inherit; font-size: 0.84rem; color: var(--ink); background: var(--code); cursor: pointer;
  border: 1px solid var(--line); border-radius: 6px; padding: 0.16rem 0.6rem; }
#search { cursor: text; width: 11rem; background: var(--paper); } #count { font-size: 0.8rem; color: var(--faint); }
.x button:hover, .x button:focus-visible, #search:focus { border-color: var(--accent); outline: none; }
main { flex: 1; display: flex; min-height: 0; position: relative; }
#graph { flex: 1; min-width: 0; height: 100%; cursor: grab; touch-action: none; user-select: none; display: block; }
#graph:active { cursor: grabbing; }
#panel { width: 23rem; overflow: auto; padding: 0.7rem 1rem; border-left: 1px solid var(--line);
  background: var(--card); overflow-wrap: anywhere; }
#panel[hidden] { display: none; } #panel h2 { margin: 0 1.5rem 0.2rem 0; font-size: 1.05rem; }
#panel .close { float: right; } #panel th { vertical-align: top; } #panel td { white-space: normal; }
#panel table { background: none; } #panel pre { padding: 0.5rem; font-size: 0.78rem; }
#panel .here { display: inline-block; min-width: 100%; background: color-mix(in srgb, var(--accent) 22%, transparent); }
@media (max-width: 700px) { main { flex-direction: column; }
  #panel { width: auto; max-height: 45%; border-left: 0; border-top: 1px solid var(--line); } }
#graph text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: var(--ink); }
.title, .small, .middle, .plus { text-anchor: middle; } .title { font-size: 12px; }
#graph .small { font-size: 10px; fill: var(--faint); } #graph .bad { fill: var(--bad); }
#graph .shape { font-size: 9.5px; fill: var(--faint); paint-order: stroke; stroke: var(--paper); stroke-width: 3px; }
#graph .pill-text { fill: var(--ink); } .end { text-anchor: end; }
#graph .frame-title { font-size: 11.5px; font-weight: 600; fill: var(--faint); paint-order: stroke;
  stroke: var(--frame-face); stroke-width: 5px; stroke-linejoin: round; }
.edge { fill: none; stroke: var(--edge); stroke-width: 1.2px; } .head { fill: var(--edge); }
.edge.carried { stroke-dasharray: 4 3; } .edge.cut { stroke-dasharray: 2 4; } .edge.stub { stroke-dasharray: 2 2; }
.edge.grad { stroke: var(--grad); } .head.grad { fill: var(--grad); }
.edge.way { stroke: var(--accent); stroke-width: 2px; } .head.way { fill: var(--accent); }
.edge.off, .head.off { opacity: 0.25; } .box.off { opacity: 0.35; }
.frame > rect { fill: var(--frame-face); stroke: var(--frame); } .frame.loop > rect, .frame.line > rect {
  stroke-dasharray: 5 4; } .catch { fill: transparent; } .fold { cursor: pointer; }
.fold:hover .frame-title { fill: var(--accent) !important; }
.box { cursor: pointer; } .face { fill: var(--face); stroke: var(--border); stroke-width: 1.2px; }
.shade { fill: var(--folded-face); stroke: var(--frame); }
.folded .face { fill: var(--folded-face); stroke: var(--folded); }
.input .face { fill: var(--input-face); stroke: var(--input); }
.output .face { stroke: var(--ink); stroke-width: 2.2px; }
.error .face, .removed .face { fill: var(--bad-face); stroke: var(--bad); stroke-width: 2px; }
.added .face { fill: var(--added-face); stroke: var(--good); stroke-width: 2px; }
.changed .face { fill: var(--changed-face); stroke: var(--warn); stroke-width: 2px; }
.pill { fill: var(--code); stroke: var(--edge); } .pill.learns { fill: var(--pill-face); stroke: var(--accent); }
.box:hover .face { stroke: var(--accent); }
.selected .face, .box.way .face { stroke: var(--accent); stroke-width: 2.4px; }
.hit .face, .frame.hit > rect { stroke: var(--warn) !important; stroke-width: 3px; }
.fold circle { fill: var(--card); stroke: var(--folded); } #graph .plus { font-size: 12px; fill: var(--folded); }
"""


def html_of(
    diagram: Diagram, opened: Collection[int], unrolled: Collection[int], gradients: bool, way: set[int] | None
) -> str:
    """The page."""
    title = diagram.title or diagram.root.detail or "Computation graph"
    n_ops = sum(1 for _ in diagram.ops())
    notes = "".join(f"<p class='faint'>{escape(note)}</p>" for note in diagram.notes)
    notes += f"<p class='bad'>{escape(diagram.error)}</p>" if diagram.error else ""
    tools = "".join(
        f'<button data-do="{act}" title="{hint}">{label}</button>'
        for act, label, hint in (
            ("fold", "Fold", "Fold everything"),
            ("unfold", "Unfold", "Unfold everything"),
            ("loops", "Loops", "Unroll or roll up loops"),
            ("gradients", "Gradients", "Show where gradients flow (g)"),
            ("out", "−", "Zoom out (-)"),  # noqa: RUF001 - a minus sign, as wide as the plus
            ("in", "+", "Zoom in (+)"),
            ("fit", "Fit", "See all of it (0)"),
        )
    )
    body = (
        f'<div id="bar"><h1>{escape(title)} <span class="faint">{n_ops:,} ops</span></h1>'
        f'<input id="search" type="search" placeholder="Search ( / )" aria-label="Search"><span id="count"></span>'
        f'{tools}{notes}</div>\n<main><svg id="graph" role="img" aria-label="{escape(title)}"><g></g></svg>'
        '<aside id="panel" hidden></aside></main>\n'
    )
    data = json.dumps(data_of(diagram, opened, unrolled, gradients, way), separators=(",", ":"), ensure_ascii=False)
    data = data.replace("</", "<\\/")  # the end of a script is the end of a script also inside of a text
    script = Path(__file__).with_name("viewer.js").read_text(encoding="utf-8")
    start = f"startViewer({data});"
    style = variables(light=_COLOURS_LIGHT, dark=_COLOURS_DARK) + _STYLE
    return page(title, body, style=style, script=f"{script}\n{start}", wide=True)


def data_of(
    diagram: Diagram,
    opened: Collection[int] = (),
    unrolled: Collection[int] = (),
    gradients: bool = False,
    way: set[int] | None = None,
) -> dict[str, Any]:
    """All that the page knows, as JSON has it."""
    places = {element.where for element in diagram.elements if element.where}
    return {
        "elements": [_element(e) for e in diagram.elements],
        "twins": diagram.twins,
        "opened": sorted(opened),
        "unrolled": sorted(unrolled),
        "gradients": gradients,
        "way": sorted(way) if way is not None else None,
        "code": {where: lines for where in places if (lines := code_around(where))},
        "constants": {name: getattr(layout, name) for name in CONSTANTS},
    }


def _element(e: Any) -> dict[str, Any]:
    if not isinstance(e, Item):
        return {
            "kind": e.kind, "t": e.title, "d": e.detail, "w": e.where, "mem": e.members, "per": e.period,
            "np": e.n_parameters, "n": e.notes, "up": e.parent,
        }  # fmt: skip
    return {
        "k": e.kind, "op": e.op, "t": e.title, "s": e.shapes, "y": e.types, "i": e.inputs, "a": e.arguments,
        "p": [[p.name, p.shape, p.learns] for p in e.parameters], "w": e.where, "v": e.values, "g": e.grad,
        "out": e.is_output, "m": e.message, "st": e.status, "n": e.notes, "up": e.parent,
    }  # fmt: skip


def code_around(where: str) -> list[tuple[int, str]]:
    """The lines around one, with their numbers."""
    path, _, line = where.rpartition(":")
    if not line.isdigit():
        return []
    lines = linecache.getlines(path)
    first, last = max(1, int(line) - AROUND), min(len(lines), int(line) + AROUND)
    return [(n, lines[n - 1].rstrip()) for n in range(first, last + 1)]
