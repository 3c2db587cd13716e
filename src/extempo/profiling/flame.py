"""The flame graph: the call tree as an SVG in which a call is as wide as it took time, with what it called below it."""

from __future__ import annotations

from html import escape

from ..inspect.style import FONT, variables
from . import sites
from .call_tree import PYTHON, CallNode

WIDTH, ROW, LEAST = 1200, 18, 0.4  # in pixels; narrower calls are left out
_COLOURS = {
    sites.PYTHON: "#d9a441",
    sites.DISPATCH: "#7d9ec9",
    sites.PLANNING_PHASE: "#a98bc9",
    sites.NATIVE: "#d8734f",
    sites.BACKWARD_PHASE: "#5fa777",
    sites.OPTIMIZER_PHASE: "#4fa3a5",
    sites.DATA_PHASE: "#b5895b",
}


class Frame:
    """A box of the picture: a call, or a line on which several things were called."""

    __slots__ = ("children", "name", "phase", "time", "title")

    def __init__(self, name: str, phase: str, title: str) -> None:
        self.name = name
        self.phase = phase
        self.title = title
        self.time = 0.0
        self.children: dict[str, Frame] = {}

    def child(self, name: str, phase: str, title: str) -> Frame:
        found = self.children.get(name)
        if found is None:
            found = self.children[name] = Frame(name, phase, title)
        return found


def frames_of(tree: CallNode) -> Frame:
    """The boxes of a tree: lines, and on them what was called there."""
    root = Frame("all", sites.PYTHON, "all")
    _add(tree, root)
    root.time = float(tree.total)
    return root


def _add(node: CallNode, frame: Frame) -> None:
    frame.time += node.total
    for child in node.children.values():
        inside = frame
        phase = sites.PYTHON if child.kind == PYTHON and not child.stage else sites.phase_of(child.kind, child.stage)
        if child.line is not None and (node.line != child.line or node.parent is None):
            inside = frame.child(str(child.line), phase, f"{child.line.file}:{child.line.number} {child.line.text}")
            inside.time += child.total
        if child.kind == PYTHON and child.name == "Python":
            if inside is frame:
                inside.child("Python", phase, "Python").time += child.total
            continue
        if child.kind == "frame":
            inside.time -= child.total  # the line stands for the call
            _add(child, inside)
            continue
        name = type(child.object).__name__ if child.kind == sites.MODULE and child.object is not None else child.name
        _add(child, inside.child(name, phase, f"{name} ({child.kind})"))


def folded(tree: CallNode) -> list[str]:
    """Stacks with their own microseconds, one a line, as flame graph programs read them."""
    lines: list[str] = []

    def visit(frame: Frame, path: list[str]) -> None:
        own = frame.time - sum(child.time for child in frame.children.values())
        if path and own >= 500:
            lines.append(f"{';'.join(path)} {max(round(own / 1e3), 1)}")
        for child in frame.children.values():
            visit(child, [*path, child.name.replace(";", ",")])

    visit(frames_of(tree), [])
    return lines


def svg_of(tree: CallNode, title: str) -> str:
    """The picture; a click on a box makes it as wide as the picture, one on the lowest row shows all again."""
    root = frames_of(tree)
    boxes: list[str] = []
    depth = _draw(root, 0.0, 0, WIDTH / max(root.time, 1.0), root.time, boxes)
    top = 54
    height = top + ROW * (depth + 1) + 10
    legend = "".join(
        f'<rect x="{14 + 165 * k}" y="30" width="10" height="10" fill="{colour}"/>'
        f'<text class="t" x="{28 + 165 * k}" y="39">{escape(name)}</text>'
        for k, (name, colour) in enumerate(_COLOURS.items())
    )
    style = (
        f"{variables('svg')} .t {{ fill: var(--ink); }} text {{ font: 11px {FONT}; }} .b text {{ fill: #111; }}"
        " rect { stroke: var(--card); stroke-width: 0.5; } .b { cursor: pointer; } .b:hover rect { opacity: 0.75; }"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        ' style="max-width:100%;height:auto">'
        f"<style>{style}</style>"
        f'<rect width="{WIDTH}" height="{height}" style="fill: var(--card)"/>'
        f'<text class="t" x="14" y="19" style="font-weight:600;font-size:13px">{escape(title)}</text>{legend}'
        f'<g transform="translate(0 {top})">{"".join(boxes)}</g><script><![CDATA[{_SCRIPT}]]></script></svg>\n'
    )


def _draw(frame: Frame, x: float, row: int, scale: float, whole: float, boxes: list[str]) -> int:
    """Write the boxes of a frame and of those below; says how deep they are."""
    width = frame.time * scale
    share = f"{frame.time / max(whole, 1.0):.1%}, {frame.time / 1e6:,.2f} ms"
    text = _cut(frame.name, width)
    label = f'<text x="{x + 3:.1f}" y="{row * ROW + 12}">{escape(text)}</text>' if text else ""
    boxes.append(
        f'<g class="b" data-x="{x:.2f}" data-w="{width:.2f}" data-n="{escape(frame.name)}">'
        f"<title>{escape(frame.title)}: {share}</title>"
        f'<rect x="{x:.2f}" y="{row * ROW}" width="{width:.2f}" height="{ROW - 1}" fill="{_COLOURS[frame.phase]}"/>'
        f"{label}</g>"
    )
    depth = row
    for child in sorted(frame.children.values(), key=lambda f: -f.time):
        if child.time * scale >= LEAST:
            depth = max(depth, _draw(child, x, row + 1, scale, whole, boxes))
        x += child.time * scale
    return depth


def _cut(name: str, width: float) -> str:
    room = int((width - 6) / 6.6)
    return name if len(name) <= room else name[: room - 1] + "…" if room >= 3 else ""


_SCRIPT = (
    f"const boxes = [...document.querySelectorAll('.b')], W = {WIDTH};"
    """
function cut(s, w) {
  const n = Math.floor((w - 6) / 6.6);
  return s.length <= n ? s : n >= 3 ? s.slice(0, n - 1) + '\u2026' : '';
}
function zoom(box) {
  const x0 = +box.dataset.x, w0 = +box.dataset.w, f = W / w0;
  for (const b of boxes) {
    const x = +b.dataset.x, w = +b.dataset.w, r = b.querySelector('rect');
    const over = x <= x0 + 0.01 && x + w >= x0 + w0 - 0.01, inside = x >= x0 - 0.01 && x + w <= x0 + w0 + 0.01;
    b.style.display = over || inside ? '' : 'none';
    const left = over ? 0 : (x - x0) * f, wide = over ? W : w * f;
    r.setAttribute('x', left);
    r.setAttribute('width', wide);
    let t = b.querySelector('text');
    if (!t) {
      t = document.createElementNS('http://www.w3.org/2000/svg', 'text');
      b.appendChild(t);
      t.setAttribute('y', +r.getAttribute('y') + 12);
    }
    t.setAttribute('x', left + 3);
    t.textContent = cut(b.dataset.n, wide);
  }
}
for (const b of boxes) b.addEventListener('click', () => zoom(b));
"""
)
