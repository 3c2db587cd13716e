"""A view as a picture: boxes, frames, arrows with the shapes that they carry."""

from __future__ import annotations

import os

from ..svg import FAINT, INK, Picture
from .layout import CARRY, CHARACTER, PILL_HEIGHT, Box, Layout, Segment, lay_out, lines_of, pill_text, short
from .model import Group, Item, shapes_text
from .view import View

LINE, FRAME, GRADIENT, WAY, BAD = "#8a93a3", "#c9d0da", "#c2571a", "#1f6fb4", "#b3261e"
FRAME_FILL = "#f7f8fb"
FILLS = {"op": "#ffffff", "input": "#eaf5ec", "error": "#fdecea"}
STROKES = {"op": "#a8b0bd", "input": "#2b8a3e", "error": BAD}
STATUS = {"added": ("#e3f4e6", "#2b8a3e"), "removed": ("#fbe4e2", BAD), "changed": ("#fdf1d8", "#b07900")}
FOLDED, PARAMETER, BUFFER = ("#eef1f8", "#7484a8"), ("#e3eefa", "#1f6fb4"), ("#f3f4f6", "#8a93a3")
_MARGIN, _TITLE = 6, 26


def picture_of(view: View, title: str, gradients: bool = False, way: set[int] | None = None) -> Picture:
    """`way`: items to highlight; what is on none of their ways is faint."""
    notes = [note for note in (view.diagram.error, *view.diagram.notes) if note]
    heading = title or view.diagram.root.detail
    top = _MARGIN + (_TITLE if heading else 0) + 16 * len(notes)
    layout = lay_out(view, top)
    widest = max([len(heading) * 8.4, *(len(note) * 6.0 for note in notes)], default=0.0)
    picture = Picture(max(layout.width, widest + 30, 120), layout.height + _MARGIN, heading or "Computation graph")
    if heading:
        picture.text(14, _MARGIN + 16, heading, size=14, font_weight=600)
    for i, note in enumerate(notes):
        colour = BAD if note == view.diagram.error else FAINT
        picture.text(14, top - 16 * (len(notes) - i) + 8, note, size=10.5, fill=colour)
    if not view.boxes:
        picture.text(14, top + 14, "nothing was recorded: nothing requires grad, or the graph is freed", fill=FAINT)
        return picture
    _Writer(picture, view, layout, gradients, way).write()
    return picture


class _Writer:
    def __init__(self, picture: Picture, view: View, layout: Layout, gradients: bool, way: set[int] | None) -> None:
        self.picture = picture
        self.view = view
        self.layout = layout
        self.gradients = gradients
        self.on_way = {view.box_of[number] for number in way} if way is not None else None
        self.carried_items = {edge.source: edge.item for edge in view.edges}
        grad = {item.number for item in view.diagram.items() if item.grad}
        self.grad_edges = {
            (edge.source, edge.target)
            for edge in view.edges
            if edge.item in grad and any(item.number in grad for item in view.diagram.inside(edge.target))
        }
        self.cut_edges = {(edge.source, edge.target) for edge in view.edges if edge.is_cut}
        self.reach: dict[int, float] = {}  # how far down a lane leads to what is chosen, on the way or by a gradient
        for edge in view.edges:
            if self._is_chosen(edge.source, edge.target):
                y = layout.boxes[edge.target].y
                self.reach[edge.source] = max(self.reach.get(edge.source, y), y)

    def write(self) -> None:
        for frame in self.view.frames[1:]:
            self._frame(frame)
        for segment in self.layout.segments:
            self._segment(segment)
        for edge in self.view.edges:
            if edge.is_carried:
                self._carried(edge.source, edge.target)
        for frame in self.view.frames[1:]:
            self._frame_title(frame)
        for box in self.view.boxes:
            self._box(box)
        self._labels()

    def _frame(self, number: int) -> None:
        group, box = self.view.diagram.group(number), self.layout.boxes[number]
        dashes = {"stroke_dasharray": "5 4"} if group.kind in ("loop", "line") else {}
        self.picture.rect(
            box.x,
            box.y,
            box.width,
            box.height,
            rx=8,
            fill=FRAME_FILL,
            stroke=FRAME,
            title=os.path.basename(group.where),
            **dashes,
        )

    def _frame_title(self, number: int) -> None:
        """Above the lines that come in."""
        title, box = self.view.diagram.group(number).title, self.layout.boxes[number]
        width = min(len(title) * CHARACTER + 6, box.width - 12)
        self.picture.rect(box.x + 7, box.y + 5, width, 16, fill=FRAME_FILL)
        self.picture.text(box.x + 10, box.y + 17, title, size=11.5, fill="#4a5568", font_weight=600)

    def _is_chosen(self, source: int, target: int) -> bool:
        if self.on_way is not None:
            return source in self.on_way and target in self.on_way
        return self.gradients and (source, target) in self.grad_edges

    def _colour(self, source: int, target: int, y: float = 0.0) -> tuple[str, float]:
        """Of a line between two boxes, or of a part at y that goes on (target -1)."""
        chosen = y < self.reach.get(source, y) if target == -1 else self._is_chosen(source, target)
        if self.on_way is not None:
            return (WAY, 1.8) if chosen else ("#d5dae2", 1.0)
        return (GRADIENT, 1.4) if chosen else (LINE, 1.2)

    def _segment(self, s: Segment) -> None:
        colour, width = self._colour(s.source, s.target, s.y0)
        has_gradient = colour == GRADIENT
        dashes = {"stroke_dasharray": "2 4"} if (s.source, s.target) in self.cut_edges else {}
        y1 = s.y1 - 6 if s.target != -1 else s.y1
        if abs(s.x0 - s.x1) < 0.5:
            self.picture.line(s.x0, s.y0, s.x1, y1, stroke=colour, stroke_width=width, **dashes)
        else:
            bend = max(12.0, (y1 - s.y0) * 0.5)
            self.picture.curve(
                (s.x0, s.y0),
                (s.x0, s.y0 + bend),
                (s.x1, y1 - bend),
                (s.x1, y1),
                stroke=colour,
                stroke_width=width,
                **dashes,
            )
        if s.target != -1:
            self._head(s.x1, s.y1, colour)
            if has_gradient:  # on its way back
                self.picture.polygon([(s.x1 - 3.5, s.y1 - 8), (s.x1 + 3.5, s.y1 - 8), (s.x1, s.y1 - 14)], fill=colour)

    def _head(self, x: float, y: float, colour: str) -> None:
        self.picture.polygon([(x - 4, y - 7), (x + 4, y - 7), (x, y)], fill=colour)

    def _carried(self, source: int, target: int) -> None:
        """From one turn to the next: back up at the right, where the frame has room for it."""
        a, b = self.layout.boxes[source], self.layout.boxes[target]
        colour, _ = self._colour(source, target)
        edges = [3 if isinstance(self.view.diagram.elements[n], Group) else 0 for n in (source, target)]
        ax, bx = a.x + a.width + edges[0], b.x + b.width + edges[1]
        is_same = source == target
        ay, by = a.y + a.height * (0.72 if is_same else 0.5), b.y + b.height * (0.28 if is_same else 0.5)
        frame = self.layout.boxes[self.view.frame_of[target]]
        out = max(ax, bx) + CARRY * 0.5 if is_same else frame.x + frame.width - CARRY * 0.5
        way = [(ax, ay), (out, ay), (out, by), (bx + 6, by)]
        self.picture.path(way, stroke=colour, stroke_dasharray="4 3", stroke_linejoin="round")
        self.picture.polygon([(bx + 7, by - 4), (bx + 7, by + 4), (bx, by)], fill=colour)

    def _box(self, number: int) -> None:
        element, box = self.view.diagram.elements[number], self.layout.boxes[number]
        is_faint = self.on_way is not None and number not in self.on_way
        title, small = lines_of(self.view, number)
        x, width = box.x + box.pills, box.width - box.pills
        if isinstance(element, Group):
            fill, stroke = FOLDED
            is_output = any(item.is_output for item in self.view.diagram.inside(number))
            thick, rounding = (2.2 if is_output else 1.4), 6
            stroke = INK if is_output else stroke
            if element.period or element.kind == "module":  # a second edge: there is more inside
                self.picture.rect(x + 3, box.y + 3, width, box.height, rx=6, fill=fill, stroke=FRAME)
            hover = os.path.basename(element.where)
        else:
            fill, stroke = STATUS[element.status] if element.status else (FILLS[element.kind], STROKES[element.kind])
            thick, rounding = (2.2 if element.is_output else 1.2), (14 if element.kind != "op" else 5)
            stroke = INK if element.is_output and not element.status else stroke
            where = os.path.basename(element.where)
            parts = (*element.types, element.arguments, element.values, where, *element.notes)
            hover = "\n".join((element.op, *filter(None, parts)))
            self._pills(element, box)
        if self.on_way is not None and not is_faint:
            stroke, thick = WAY, 2.2
        style = {"opacity": 0.45} if is_faint else {}
        self.picture.rect(
            x, box.y, width, box.height, rx=rounding, fill=fill, stroke=stroke, stroke_width=thick, title=hover, **style
        )
        extra = [short(element.message, 70)] if isinstance(element, Item) and element.message else []
        extra += [short(element.notes[0], 44)] if element.notes else []
        n_lines = 1 + bool(small) + len(extra)
        y = box.y + box.height / 2 - (n_lines - 1) * 6.5 + 4
        middle = x + width / 2
        self.picture.text(middle, y, title, anchor="middle", size=12, fill=FAINT if is_faint else INK)
        for line in [small] * bool(small) + extra:
            y += 13.5
            colour = BAD if isinstance(element, Item) and line.startswith(element.message[:30] or "\0") else FAINT
            self.picture.text(middle, y, line, anchor="middle", size=10, fill=colour)

    def _pills(self, item: Item, box: Box) -> None:
        """Parameters, at the left of the op that reads them."""
        step = PILL_HEIGHT + 3
        y = box.y + (box.height - len(item.parameters) * step + 3) / 2
        for parameter in item.parameters:
            fill, stroke = PARAMETER if parameter.learns else BUFFER
            width = box.pills - 14
            title = f"{parameter.name} {parameter.shape}"
            self.picture.rect(box.x, y, width, PILL_HEIGHT, rx=8.5, fill=fill, stroke=stroke, title=title)
            text = pill_text(parameter.name, parameter.shape)
            self.picture.text(box.x + width / 2, y + 12, text, anchor="middle", size=10, fill="#31455f")
            middle, colour = y + PILL_HEIGHT / 2, GRADIENT if self.gradients and parameter.learns else LINE
            end = box.x + box.pills
            self.picture.line(box.x + width, middle, end - 5, middle, stroke=colour)
            self.picture.polygon([(end - 6, middle - 3.5), (end - 6, middle + 3.5), (end, middle)], fill=colour)
            y += step

    def _labels(self) -> None:
        """Shapes, where their values leave a box; and where the ends of long ways come from."""
        seen: set[int] = set()
        for s in self.layout.segments:
            box = self.layout.boxes.get(s.source)
            if s.source in seen or box is None or abs(s.y0 - (box.y + box.height)) > 0.5:
                continue
            seen.add(s.source)
            item = self.view.diagram.item(self.carried_items[s.source])
            words = short(shapes_text(item.shapes), 30)
            side = -5 if s.x1 > s.x0 + 8 else 5  # where the line does not go
            self.picture.text(
                s.x0 + side, s.y0 + 12, words, size=9.5, fill=FAINT, anchor="end" if side < 0 else "start"
            )
        for stub in self.layout.stubs:
            title = self.view.diagram.elements[stub.source].title
            self.picture.line(stub.x, stub.y - 16, stub.x, stub.y - 6, stroke=LINE, stroke_dasharray="2 2")
            self._head(stub.x, stub.y, LINE)
            self.picture.text(stub.x, stub.y - 19, short(title, 14), anchor="middle", size=9, fill=FAINT)
