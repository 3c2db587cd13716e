"""Layout: places for the boxes and frames of a view, and ways for its edges, from top to bottom.

Layered, in the order in which ops ran: a box's row is the longest path to it, a few sweeps order each row by the middle
of its neighbours, and a few more move boxes towards what they are connected with. A frame is laid out first by itself,
with ports where values come in and go out, and is then a box of the frame around it. A value that is used further down
has a lane of its own past every row, so that lines run beside boxes, not behind them; where the way is very long, it
is left out, and its target says where the value comes from.

`viewer.js` has the same steps under the same names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from .model import ROOT, Item
from .view import View

GAP_X, GAP_Y, PADDING, HEADER = 18, 38, 14, 24
LANE = 12  # width of a value's way past a row
CARRY = 30  # room at the right for what is handed on to the next turn
LONGEST = 40  # rows that a lane passes; a longer one is left out
CHARACTER, SMALL_CHARACTER = 7.0, 5.7  # width of one, of titles (12 px) and of small print (10 px)
PILL_HEIGHT, PILL_GAP = 17, 14
N_SWEEPS = 4


class Box(NamedTuple):
    """A box or a frame. Parameters take `pills` of its width, at the left."""

    x: float
    y: float
    width: float
    height: float
    pills: float = 0.0

    @property
    def middle(self) -> float:
        return self.x + self.pills + (self.width - self.pills) / 2


class Segment(NamedTuple):
    """A part of the way of a value, from one row to the next one; straight down past a row."""

    source: int
    target: int  # the box that it ends at, -1 if it goes on
    x0: float
    y0: float
    x1: float
    y1: float


class Stub(NamedTuple):
    """The end of a way that is left out: where a value arrives, and from which box."""

    source: int
    target: int
    x: float
    y: float


@dataclass
class Layout:
    """Places of everything."""

    boxes: dict[int, Box] = field(default_factory=dict)  # and frames
    segments: list[Segment] = field(default_factory=list)
    stubs: list[Stub] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0


class Wire:
    """The way of one value through one frame: from a child, or from above (-1), to children, or further down."""

    __slots__ = ("ends", "far", "first", "last", "leaves", "near", "reaches", "source", "start")

    def __init__(self, source: int, start: int) -> None:
        self.source = source
        self.start = start
        self.ends: dict[int, None] = {}
        self.leaves = False
        self.first = self.last = 0  # rows
        self.near: list[int] = []  # ends that a lane leads to
        self.far: list[int] = []  # those that say instead where the value comes from
        self.reaches = False  # whether a lane leads out of the frame


Vertex = tuple[bool, int]  # (is it a lane, the wire's source or the child)


def lines_of(view: View, number: int) -> tuple[str, str]:
    """The title of a box and its small print."""
    element = view.diagram.elements[number]
    if isinstance(element, Item):
        small = element.arguments if element.kind in ("op", "error") else element.values
        return short(element.title, 34), short(small, 34)
    n_ops = sum(item.kind in ("op", "error") for item in view.diagram.inside(number))
    n_ops //= element.turns
    small = f"{n_ops:,} op{'s' * (n_ops != 1)}{' each' if element.period else ''}"
    if element.n_parameters:
        small += f", {element.n_parameters:,} parameters"
    return short(element.title, 44), small


def short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def size_of(view: View, number: int) -> tuple[float, float, float]:
    """Width, height and the part of the width that parameters take."""
    element = view.diagram.elements[number]
    title, small = lines_of(view, number)
    width = max(64.0, len(title) * CHARACTER + 20, len(small) * SMALL_CHARACTER + 18)
    height = 40.0 if small else 28.0
    if isinstance(element, Item) and element.message:
        height += 14
        width = max(width, len(short(element.message, 70)) * SMALL_CHARACTER + 18)
    if element.notes:
        height += 13
        width = max(width, len(short(element.notes[0], 44)) * SMALL_CHARACTER + 18)
    pills = 0.0
    if isinstance(element, Item) and element.parameters:
        longest = max(len(pill_text(p.name, p.shape)) for p in element.parameters)
        pills = longest * SMALL_CHARACTER + 12 + PILL_GAP
        height = max(height, len(element.parameters) * (PILL_HEIGHT + 3) - 3)
    return width + pills, height, pills


def pill_text(name: str, shape: str) -> str:
    return f"{short(name.rpartition('.')[2], 16)} {shape}"


def lay_out(view: View, top: float = 0.0) -> Layout:
    """The places, with the root's frame at (0, top)."""
    work = _Work(view)
    work.arrange(ROOT)
    layout = Layout()
    work.place(layout, ROOT, 0.0, top)
    layout.width, layout.height = work.sizes[ROOT][0], top + work.sizes[ROOT][1]
    return layout


class _Work:
    def __init__(self, view: View) -> None:
        self.view = view
        self.sizes: dict[int, tuple[float, float, float]] = {box: size_of(view, box) for box in view.boxes}
        self.local: dict[int, tuple[float, float]] = {}  # places in the frame around
        self.segments: dict[int, list[Segment]] = {}
        self.stubs: dict[int, list[Stub]] = {}
        self.ports_in: dict[int, dict[int, float]] = {}  # of frames: by source, how far from the left
        self.ports_out: dict[int, dict[int, float]] = {}
        self.carries = {view.frame_of[edge.target] for edge in view.edges if edge.is_carried}
        self.wires: dict[int, dict[int, Wire]] = {frame: {} for frame in view.frames}
        for edge in view.edges:
            if not edge.is_carried:
                self._spread(edge.source, edge.target)

    def _spread(self, source: int, target: int) -> None:
        """Give each frame that an edge passes its part of the way."""
        a, b = self._chain(source), self._chain(target)
        common = 0
        while a[common + 1] == b[common + 1]:
            common += 1
        for depth in range(common, len(a) - 1):
            wire = self._wire(a[depth], source, a[depth + 1])
            if depth == common:
                wire.ends[b[depth + 1]] = None
            else:
                wire.leaves = True
        for depth in range(common + 1, len(b) - 1):
            self._wire(b[depth], source, -1).ends[b[depth + 1]] = None

    def _chain(self, box: int) -> list[int]:
        chain = [box]
        while chain[-1] != ROOT:
            chain.append(self.view.frame_of[chain[-1]])
        return chain[::-1]

    def _wire(self, frame: int, source: int, start: int) -> Wire:
        found = self.wires[frame].get(source)
        if found is None:
            found = self.wires[frame][source] = Wire(source, start)
        return found

    # ---- one frame

    def arrange(self, frame: int) -> None:
        """Places within a frame, its size and its ports; frames inside of it first."""
        children = self.view.children(frame)
        for child in children:
            if child in self.view.opened:
                self.arrange(child)
        wires = list(self.wires[frame].values())
        row_of = self._rows(children, wires)
        n_rows = max(row_of.values(), default=-1) + 1
        for wire in wires:
            wire.first = -1 if wire.start == -1 else row_of[wire.start]
            wire.near = [end for end in wire.ends if row_of[end] - wire.first <= LONGEST]
            wire.far = [end for end in wire.ends if row_of[end] - wire.first > LONGEST]
            wire.reaches = wire.leaves and n_rows - wire.first <= LONGEST
            wire.last = n_rows if wire.reaches else max((row_of[end] for end in wire.near), default=wire.first)
        rows = self._vertices(children, wires, row_of, n_rows)
        links = self._links(wires, row_of, n_rows)
        self._order(rows, links)
        centres = self._columns(frame, rows, links)
        self._finish(frame, rows, wires, row_of, centres)

    def _rows(self, children: list[int], wires: list[Wire]) -> dict[int, int]:
        """The longest path to each child; what has no inputs stands right above its first use."""
        sources: dict[int, list[int]] = {child: [] for child in children}
        is_fed = set()
        first_use: dict[int, list[int]] = {}
        for wire in wires:
            for end in wire.ends:
                is_fed.add(end)
                if wire.start != -1:
                    sources[end].append(wire.start)
            if wire.start != -1:
                first_use[wire.start] = list(wire.ends)
        row_of: dict[int, int] = {}
        for child in children:
            row_of[child] = max((row_of[s] + 1 for s in sources[child]), default=0)
        for child in children:
            if child not in is_fed and first_use.get(child):
                row_of[child] = max(0, min(row_of[use] for use in first_use[child]) - 1)
        return row_of

    def _vertices(
        self, children: list[int], wires: list[Wire], row_of: dict[int, int], n_rows: int
    ) -> list[list[Vertex]]:
        """What stands in each row, ports in the first and the last: children, and lanes that pass."""
        rows: list[list[Vertex]] = [[] for _ in range(n_rows + 2)]
        lanes_from: dict[int, list[Wire]] = {}
        for wire in wires:
            lanes_from.setdefault(wire.start, []).append(wire)

        def add_lanes(start: int) -> None:
            for wire in lanes_from.get(start, ()):
                lanes = list(range(wire.first + 1, n_rows + 1 if wire.reaches else wire.last))
                lanes = [-1, *lanes] if start == -1 else lanes
                for row in [*lanes, n_rows] if wire.leaves and not wire.reaches else lanes:
                    rows[row + 1].append((True, wire.source))

        add_lanes(-1)
        for child in children:
            rows[row_of[child] + 1].append((False, child))
            add_lanes(child)
        return rows

    def _links(self, wires: list[Wire], row_of: dict[int, int], n_rows: int) -> list[list[tuple[Vertex, Vertex]]]:
        """Between each row and the next: which vertices belong together."""
        links: list[list[tuple[Vertex, Vertex]]] = [[] for _ in range(n_rows + 1)]
        for wire in wires:
            lane: Vertex = (True, wire.source)
            for row in range(wire.first, wire.last):
                above = (False, wire.start) if row == wire.first and wire.start != -1 else lane
                if row + 1 < wire.last or wire.reaches:
                    links[row + 1].append((above, lane))
            for end in wire.near:
                row = row_of[end] - 1
                above = (False, wire.start) if row == wire.first and wire.start != -1 else lane
                links[row + 1].append((above, (False, end)))
        return links

    def _order(self, rows: list[list[Vertex]], links: list[list[tuple[Vertex, Vertex]]]) -> None:
        """Sort each row by the middle of its neighbours, downwards and upwards in turn."""
        for sweep in range(N_SWEEPS):
            downwards = sweep % 2 == 0
            for i in range(1, len(rows)) if downwards else range(len(rows) - 2, -1, -1):
                fixed = rows[i - 1 if downwards else i + 1]
                place = {vertex: k for k, vertex in enumerate(fixed)}
                sums: dict[Vertex, tuple[int, int]] = {}
                for above, below in links[i - 1 if downwards else i]:
                    moved, other = (below, above) if downwards else (above, below)
                    total, n = sums.get(moved, (0, 0))
                    sums[moved] = (total + place[other], n + 1)
                keys = {
                    v: sums[v][0] / sums[v][1] if v in sums else k * len(fixed) / max(len(rows[i]), 1)
                    for k, v in enumerate(rows[i])
                }
                rows[i].sort(key=keys.__getitem__)

    def _columns(
        self, frame: int, rows: list[list[Vertex]], links: list[list[tuple[Vertex, Vertex]]]
    ) -> list[dict[Vertex, float]]:
        """The middle of each vertex: near those of its neighbours, without overlaps."""
        widths = [[LANE if v[0] else self.sizes[v[1]][0] for v in row] for row in rows]
        centres: list[dict[Vertex, float]] = []
        for row, wide in zip(rows, widths, strict=True):
            x, found = 0.0, {}
            for vertex, width in zip(row, wide, strict=True):
                found[vertex] = x + width / 2
                x += width + (LANE / 2 if vertex[0] else GAP_X)
            centres.append({vertex: at - x / 2 for vertex, at in found.items()})
        for sweep in range(2 * N_SWEEPS):
            downwards = sweep % 2 == 0
            for i in range(1, len(rows)) if downwards else range(len(rows) - 2, -1, -1):
                other_row = i - 1 if downwards else i + 1
                sums: dict[Vertex, tuple[float, int]] = {}
                for above, below in links[i - 1 if downwards else i]:
                    moved, other = (below, above) if downwards else (above, below)
                    at = centres[other_row][other] + self._offset(other) - self._offset(moved)
                    total, n = sums.get(moved, (0.0, 0))
                    sums[moved] = (total + at, n + 1)
                wanted = [sums[v][0] / sums[v][1] if v in sums else centres[i][v] for v in rows[i]]
                for vertex, at in zip(rows[i], _apart(rows[i], widths[i], wanted), strict=True):
                    centres[i][vertex] = at
        return centres

    def _offset(self, vertex: Vertex) -> float:
        """How far from a vertex's middle its connection is: beside the parameters.

        Frames are aligned by their middles: by their ports a long chain of them would drift to one side.
        """
        return 0.0 if vertex[0] else self.sizes[vertex[1]][2] / 2

    def _finish(
        self,
        frame: int,
        rows: list[list[Vertex]],
        wires: list[Wire],
        row_of: dict[int, int],
        centres: list[dict[Vertex, float]],
    ) -> None:
        """Places, ports and ways, from the columns and the heights of the rows."""
        half = {v: (LANE if v[0] else self.sizes[v[1]][0]) / 2 for row in rows for v in row}
        left = min((at - half[v] for row in centres for v, at in row.items()), default=0.0)
        right = max((at + half[v] for row in centres for v, at in row.items()), default=0.0)
        shift = PADDING - left
        centres = [{v: at + shift for v, at in row.items()} for row in centres]
        is_root = frame == ROOT
        top = PADDING if is_root else HEADER + 8
        tops, bottoms = [0.0], [0.0]
        has_ports = bool(rows[0])
        y = float(top + (14 if has_ports else 0))
        for row in rows[1:-1]:
            height = max((self.sizes[v[1]][1] for v in row if not v[0]), default=0.0)
            tops.append(y)
            bottoms.append(y + height)
            y += height + GAP_Y
        y += -GAP_Y + (GAP_Y * 0.7 if rows[-1] else PADDING)
        tops.append(y)
        bottoms.append(y)
        for i, row in enumerate(rows):
            for v in row:
                if not v[0]:
                    width, height, _ = self.sizes[v[1]]
                    room = bottoms[i] - tops[i] - height
                    self.local[v[1]] = (
                        centres[i][v] - width / 2,
                        tops[i] + (room / 2 if v[1] not in self.view.opened else 0),
                    )
        title = lines_of(self.view, frame)[0]
        width = max(right - left + 2 * PADDING, 0.0 if is_root else len(title) * CHARACTER + 2 * PADDING)
        width += CARRY if frame in self.carries else 0
        self.sizes[frame] = (width, y, 0.0)
        self.ports_in[frame] = {v[1]: centres[0][v] for v in rows[0]}
        self.ports_out[frame] = {v[1]: centres[-1][v] for v in rows[-1]}
        self._ways(frame, wires, row_of, centres, tops, bottoms)

    def _ways(
        self,
        frame: int,
        wires: list[Wire],
        row_of: dict[int, int],
        centres: list[dict[Vertex, float]],
        tops: list[float],
        bottoms: list[float],
    ) -> None:
        segments: list[Segment] = []
        stubs: list[Stub] = []
        arriving: dict[int, list[tuple[float, int]]] = {}  # at each box: from where, to spread them
        for wire in wires:
            for end in wire.ends:
                at = centres[row_of[end]].get((True, wire.source))
                at = self._leaving(wire) if at is None and wire.start != -1 else at
                arriving.setdefault(end, []).append((at if at is not None else -1.0, wire.source))
        entries = {
            (end, source): x for end, found in arriving.items() for x, source in self._entries(end, sorted(found))
        }
        for wire in wires:
            lane: Vertex = (True, wire.source)
            for end in wire.far:
                stubs.append(Stub(wire.source, end, entries[end, wire.source], self.local[end][1]))
            x, y = (centres[0][lane], 0.0) if wire.start == -1 else (self._leaving(wire), self._bottom(wire.start))
            ends_by_row: dict[int, list[int]] = {}
            for end in wire.near:
                ends_by_row.setdefault(row_of[end], []).append(end)
            for row in range(wire.first + 1, wire.last + 1):
                for end in ends_by_row.get(row, ()):
                    is_frame = end in self.view.opened
                    to = -1 if is_frame else end
                    segments.append(Segment(wire.source, to, x, y, entries[end, wire.source], self.local[end][1]))
                if lane in centres[row + 1]:
                    at = centres[row + 1][lane]
                    segments.append(Segment(wire.source, -1, x, y, at, tops[row + 1]))
                    if bottoms[row + 1] > tops[row + 1]:
                        segments.append(Segment(wire.source, -1, at, tops[row + 1], at, bottoms[row + 1]))
                    x, y = at, bottoms[row + 1]
        self.segments[frame] = segments
        self.stubs[frame] = stubs

    def _leaving(self, wire: Wire) -> float:
        """Where a value leaves the child that it comes from."""
        x, _ = self.local[wire.start]
        width, _, pills = self.sizes[wire.start]
        ports = self.ports_out.get(wire.start)
        return x + ports[wire.source] if ports is not None and wire.source in ports else x + pills + (width - pills) / 2

    def _bottom(self, child: int) -> float:
        return self.local[child][1] + self.sizes[child][1]

    def _entries(self, end: int, found: list[tuple[float, int]]) -> list[tuple[float, int]]:
        """Where values arrive at a child: at a frame's ports, or side by side at the top of a box."""
        x, _ = self.local[end]
        width, _, pills = self.sizes[end]
        ports = self.ports_in.get(end)
        if ports is not None:
            return [(x + ports[source], source) for _, source in found]
        step = min(16.0, (width - pills - 16) / len(found))
        first = x + pills + (width - pills) / 2 - step * (len(found) - 1) / 2
        return [(first + i * step, source) for i, (_, source) in enumerate(found)]

    # ---- all of them

    def place(self, layout: Layout, frame: int, x: float, y: float) -> None:
        width, height, _ = self.sizes[frame]
        layout.boxes[frame] = Box(x, y, width, height)
        for child in self.view.children(frame):
            dx, dy = self.local[child]
            if child in self.view.opened:
                self.place(layout, child, x + dx, y + dy)
            else:
                width, height, pills = self.sizes[child]
                layout.boxes[child] = Box(x + dx, y + dy, width, height, pills)
        for s in self.segments[frame]:
            layout.segments.append(Segment(s.source, s.target, x + s.x0, y + s.y0, x + s.x1, y + s.y1))
        layout.stubs += [Stub(s.source, s.target, x + s.x, y + s.y) for s in self.stubs[frame]]


def _apart(row: list[Vertex], widths: list[float], wanted: list[float]) -> list[float]:
    """Places near the wanted ones, in the same order, that do not overlap: halfway between pushing right and left."""
    n = len(row)
    gaps = [(widths[i] + widths[i + 1]) / 2 + (LANE / 2 if row[i][0] or row[i + 1][0] else GAP_X) for i in range(n - 1)]
    right, left = list(wanted), list(wanted)
    for i in range(1, n):
        right[i] = max(right[i], right[i - 1] + gaps[i - 1])
    for i in range(n - 2, -1, -1):
        left[i] = min(left[i], left[i + 1] - gaps[i])
    return [(a + b) / 2 for a, b in zip(right, left, strict=True)]
