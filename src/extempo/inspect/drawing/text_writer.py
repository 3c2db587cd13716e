"""A view as text that fits a terminal: a line for each box, beside it lanes for the values that are still to be used.

○      x                     (4, 3)
●      linear                (4, 8)
├─●    relu                  (4, 8)
●─╯    add                   (4, 8)
"""

from __future__ import annotations

from .layout import lines_of, short
from .model import ROOT, Group, Item, shapes_text
from .view import View

MOST_LANES = 14
_MARKS = {"op": "●", "input": "○", "error": "✗"}
_STATUS = {"added": "+ ", "removed": "- ", "changed": "~ "}


def text_of(view: View, title: str, width: int, way: set[int] | None = None) -> str:
    """Lines of at most `width` characters."""
    diagram = view.diagram
    n_ops = sum(1 for _ in diagram.ops())
    heading = title or diagram.root.detail or "graph"
    counts = f"{n_ops:,} op{'s' * (n_ops != 1)}"
    if diagram.root.n_parameters:
        counts += f", {diagram.root.n_parameters:,} parameters"
    lines = [f"{heading}: {counts}"]
    lines += [note for note in (diagram.error, *diagram.notes) if note]
    if not view.boxes:
        lines.append("nothing was recorded: nothing requires grad, or the graph is freed")
        return "\n".join(short(line, width) for line in lines)
    lanes = _lanes(view)
    rail = max((len(lane) for lane in lanes), default=0)
    on_way = {view.box_of[number] for number in way} if way is not None else None
    rows = list(zip(view.boxes, lanes, strict=True))
    entries: list[tuple[str, str, str]] = []
    shown_frames: list[int] = []
    for box, lane in rows:
        chain = _frames(view, box)
        for depth, frame in enumerate(chain):
            if frame not in shown_frames[: depth + 1]:
                above = "".join("│" if c in "│├┤┼╮╭" else " " for c in _passing(lane, rail))
                entries.append((above.ljust(rail), "  " * depth + "▾ " + view.diagram.group(frame).title, ""))
        shown_frames = chain
        indent = "  " * len(chain)
        entries.append((lane.ljust(rail), indent + _label(view, box, on_way), _shapes(view, box)))
    return "\n".join([short(line, width) for line in lines] + _aligned(entries, rail, width))


def _aligned(entries: list[tuple[str, str, str]], rail: int, width: int) -> list[str]:
    wide = max(len(shapes) for _, _, shapes in entries)
    room = max(12, width - rail - 2 - 2 - min(wide, 24))
    column = min(max(len(label) for _, label, _ in entries), room)
    found = []
    for lane, label, shapes in entries:
        line = f"{lane}  {short(label, column).ljust(column)}  {shapes}"
        found.append(short(line, width).rstrip())
    return found


def _frames(view: View, box: int) -> list[int]:
    found: list[int] = []
    frame = view.frame_of[box]
    while frame != ROOT:
        found.append(frame)
        frame = view.frame_of[frame]
    return found[::-1]


def _label(view: View, box: int, on_way: set[int] | None) -> str:
    element = view.diagram.elements[box]
    title, small = lines_of(view, box)
    mark = "* " if on_way is not None and box in on_way else ""
    if isinstance(element, Group):
        return f"{mark}▸ {title}  {small}" + "".join(f"  [{note}]" for note in element.notes)
    parameters = " ".join(p.name.rpartition(".")[2] for p in element.parameters)
    arguments = small if element.kind in ("op", "error") else ""
    parts = [p for p in (parameters, arguments) if p]
    label = f"{mark}{_STATUS.get(element.status, '')}{title}" + (f"({', '.join(parts)})" if parts else "")
    for note in (element.message, *element.notes):
        label += f"  [{note}]" if note else ""
    return label


def _shapes(view: View, box: int) -> str:
    element = view.diagram.elements[box]
    if isinstance(element, Item):
        return shapes_text(element.shapes)
    inside = [item for item in view.diagram.inside(box) if item.kind == "op"]
    outgoing = [view.diagram.item(edge.item) for edge in view.edges if edge.source == box]
    leaving = [*outgoing[:1], *(item for item in inside if item.is_output), *inside[-1:]]
    return shapes_text(leaving[0].shapes) if leaving else ""


def _passing(lane: str, rail: int) -> str:
    return lane.ljust(rail)


def _lanes(view: View) -> list[str]:
    """Beside each box: where its inputs come from and which values are still to be used."""
    order = {box: i for i, box in enumerate(view.boxes)}
    last_use: dict[int, int] = {}
    sources: dict[int, list[int]] = {}
    for edge in view.edges:
        if not edge.is_carried:
            last_use[edge.source] = max(last_use.get(edge.source, 0), order[edge.target])
            sources.setdefault(edge.target, []).append(edge.source)
    carried = {edge.target for edge in view.edges if edge.is_carried}
    columns: list[int | None] = []  # the box whose value is in each lane
    found: list[str] = []
    for i, box in enumerate(view.boxes):
        used = [k for k, held in enumerate(columns) if held is not None and held in sources.get(box, ())]
        ended = [k for k in used if last_use[columns[k]] == i]  # type: ignore[index] # a lane that is used is held
        free = next((k for k, held in enumerate(columns) if held is None), len(columns))
        at = min(ended) if ended else free
        if at == len(columns):
            columns.append(None)
        if len(columns) > MOST_LANES:
            return [_mark(view, box) for box in view.boxes]
        found.append(_row(columns, at, used, ended, _mark(view, box)) + ("↺" if box in carried else ""))
        for k in ended:
            columns[k] = None
        columns[at] = box if box in last_use else None
        while columns and columns[-1] is None:
            columns.pop()
    return found


def _mark(view: View, box: int) -> str:
    element = view.diagram.elements[box]
    return _MARKS[element.kind] if isinstance(element, Item) else "■"


def _row(columns: list[int | None], at: int, used: list[int], ended: list[int], mark: str) -> str:
    reached = [*used, at]
    first, last = min(reached), max(reached)
    text = ""
    for k, held in enumerate(columns):
        passes = first < k < last
        if k == at:
            sign = mark
        elif k in used:
            is_end, is_left, is_right = k in ended, k == first, k == last
            if is_end:
                sign = "╰" if is_left else "╯" if is_right else "┴"
            else:
                sign = "├" if is_left else "┤" if is_right else "┼"
        elif held is not None:
            sign = "┼" if passes else "│"
        else:
            sign = "─" if passes else " "
        text += sign + ("─" if first <= k < last else " ")
    return text.rstrip()
