// Charts over steps: lines or stacked areas, with zoom, a cursor, marks, and downloads as SVG, PNG and CSV.
// Works by mouse, finger and keyboard; what it shows is also there as a table of text.

import { ChartCursor } from "./chart_cursor.js";
import { clamp, drawnLater, h, number, s, table, ticks } from "./dom.js";
import { csvText, save, savePng, svgText } from "./downloads.js";

const LEFT = 56,
  RIGHT = 14,
  BOTTOM = 34,
  HEIGHT = 220,
  LEGEND_ROW = 18,
  MARK_ROW = 13,
  MARK_ROWS = 3;
const MOST_ROWS = 200; // of the table beside a chart

// The part of the steps that is looked at; charts that share one zoom together.
export class Range {
  constructor() {
    this.from = this.to = null;
    this.charts = new Set();
  }
  set(from, to) {
    this.from = from;
    this.to = to;
    for (const chart of this.charts) chart.update();
  }
  get isZoomed() {
    return this.from !== null;
  }
}

export class Chart {
  // series() gives [{ name, xs, ys, colour, dashed }], marks() [{ x, text }]; `kind` is "line" or "stack".
  // Charts that stand beside each other have one extent() = [from, to]; else a chart begins and ends with its points.
  constructor({
    title,
    name,
    xLabel = "step",
    kind = "line",
    log = false,
    format = number,
    series,
    marks = () => [],
    extent = () => null,
    range = new Range(),
  }) {
    Object.assign(this, { title, name, xLabel, kind, log, format, series, marks, extent, range });
    range.charts.add(this);
    this.svg = s("svg", { class: "chart", tabindex: 0, role: "img", "aria-label": title });
    this.cursor = new ChartCursor(this);
    this.out = h(
      "button",
      { class: "small", hidden: !range.isZoomed, onclick: () => range.set(null, null) },
      "Show all",
    );
    const tool = (label, run) =>
      h("button", { class: "small quiet", "aria-label": `${title}: download as ${label}`, onclick: run }, label);
    this.tableBox = h("details", { class: "as-table" }, h("summary", {}, "As a table"));
    this.tableBox.addEventListener("toggle", () => this.fillTable());
    this.element = h(
      "figure",
      { class: "card chart-card" },
      h(
        "div",
        { class: "card-head" },
        h("figcaption", {}, title),
        this.out,
        h(
          "span",
          { class: "tools" },
          tool("SVG", () => save(`${name}.svg`, svgText(this.svg), "image/svg+xml")),
          tool("PNG", () => savePng(`${name}.png`, this.svg)),
          tool("CSV", () => save(`${name}.csv`, this.csv(), "text/csv")),
        ),
      ),
      h("div", { class: "plot" }, this.svg, this.cursor.tip),
      this.tableBox,
    );
    this.update = drawnLater(() => this.draw());
    new ResizeObserver(() => this.update()).observe(this.element);
  }

  draw() {
    const width = Math.floor(this.svg.parentElement.clientWidth);
    if (!width) return; // in a panel that is not shown
    this.shown = this.series().filter((line) => line.xs.length);
    this.out.hidden = !this.range.isZoomed;
    const legend = this.legend(width),
      above = Math.min(this.marks().length, MARK_ROWS) * MARK_ROW,
      top = 8 + legend.rows * LEGEND_ROW + above,
      height = HEIGHT + legend.rows * LEGEND_ROW + above;
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    this.plot = { left: LEFT, right: width - RIGHT, top, bottom: height - BOTTOM };
    if (!this.shown.length) {
      this.svg.replaceChildren(s("text", { x: width / 2, y: height / 2, class: "empty" }, "Nothing yet"));
      return;
    }
    this.scales();
    this.svg.replaceChildren(
      ...legend.elements,
      ...this.axes(),
      ...(this.kind === "stack" ? this.areas() : []),
      ...this.lines(),
      ...this.markLines(),
      this.cursor.line,
    );
    this.svg.setAttribute("aria-label", this.summary());
    this.cursor.redraw();
    if (this.tableBox.open) this.fillTable();
  }

  summary() {
    const parts = this.shown.map((line) => {
      const last = line.ys.length - 1;
      return `${line.name}: ${line.ys.length} points, from ${this.format(line.ys[0])} to ${this.format(line.ys[last])}`;
    });
    return `${this.title} by ${this.xLabel}. ${parts.join("; ")}. Arrow keys move the cursor, plus and minus zoom, 0 shows all.`;
  }

  // ---- numbers to places

  scales() {
    let x0 = Infinity,
      x1 = -Infinity;
    for (const { xs } of this.shown) {
      x0 = Math.min(x0, xs[0]);
      x1 = Math.max(x1, xs[xs.length - 1]);
    }
    this.whole = [x0, x1] = this.extent() ?? [x0, x1];
    if (this.range.isZoomed) [x0, x1] = [this.range.from, this.range.to];
    if (x1 <= x0) x1 = x0 + 1;
    let low = Infinity,
      high = -Infinity;
    const see = (y) => {
      if (Number.isFinite(y) && (!this.log || y > 0)) {
        low = Math.min(low, y);
        high = Math.max(high, y);
      }
    };
    for (const line of this.shown) {
      const [first, last] = this.visible(line, x0, x1);
      for (let i = first; i <= last; i++) see(line.ys[i]);
    }
    if (this.stacked.length) {
      const parts = this.stacked,
        [first, last] = this.visible(parts[0], x0, x1);
      low = 0;
      for (let i = first; i <= last; i++) see(parts.reduce((sum, part) => sum + (part.ys[i] || 0), 0));
    }
    if (low > high) [low, high] = this.log ? [0.1, 1] : [0, 1];
    if (this.log) {
      [low, high] = [Math.log10(low), Math.log10(high)];
      if (high - low < 1) {
        const middle = (low + high) / 2;
        [low, high] = [middle - 0.5, middle + 0.5];
      }
    } else {
      const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 0.5;
      low = low >= 0 ? Math.max(0, low - room) : low - room;
      high += room;
    }
    this.view = { x0, x1, low, high };
  }

  x(value) {
    const { x0, x1 } = this.view,
      { left, right } = this.plot;
    return left + ((value - x0) / (x1 - x0)) * (right - left);
  }
  y(value) {
    const { low, high } = this.view,
      { top, bottom } = this.plot,
      at = this.log ? Math.log10(value) : value;
    return bottom - ((at - low) / (high - low)) * (bottom - top);
  }
  xAt(place) {
    const { x0, x1 } = this.view,
      { left, right } = this.plot;
    return x0 + ((place - left) / (right - left)) * (x1 - x0);
  }

  // The first and the last point within the range, and one on each side so that lines reach the edges.
  visible(line, x0, x1) {
    const after = (limit) => {
      let a = 0,
        b = line.xs.length;
      while (a < b) {
        const middle = (a + b) >> 1;
        if (line.xs[middle] < limit) a = middle + 1;
        else b = middle;
      }
      return a;
    };
    return [Math.max(0, after(x0) - 1), Math.min(line.xs.length - 1, after(x1))];
  }

  // ---- what is drawn

  legend(width) {
    const elements = [];
    let x = LEFT,
      row = 0;
    for (const line of this.shown) {
      const wide = 24 + line.name.length * 6.6 + 12;
      if (x > LEFT && x + wide > width - RIGHT) {
        x = LEFT;
        row++;
      }
      const y = 12 + row * LEGEND_ROW;
      elements.push(
        s("line", {
          class: `line c${line.colour}${line.dashed ? " dashed" : ""}`,
          x1: x,
          x2: x + 18,
          y1: y - 4,
          y2: y - 4,
        }),
        s("text", { class: "legend", x: x + 23, y }, line.name),
      );
      x += wide;
    }
    return { elements, rows: this.shown.length ? row + 1 : 0 };
  }

  axes() {
    const { left, right, top, bottom } = this.plot,
      { x0, x1, low, high } = this.view,
      found = [];
    const heights = this.log
      ? ticks(Math.ceil(low), Math.floor(high), 4)
          .filter(Number.isInteger)
          .map((e) => 10 ** e)
      : ticks(low, high, 4);
    for (const value of heights) {
      const y = this.y(value);
      found.push(
        s("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }),
        s("text", { class: "tick end", x: left - 7, y: y + 4 }, this.format(value)),
      );
    }
    for (const value of ticks(x0, x1, clamp((right - left) / 90, 2, 8))) {
      if (Number.isInteger(value))
        found.push(s("text", { class: "tick middle", x: this.x(value), y: bottom + 16 }, number(value)));
    }
    found.push(
      s("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
      s("text", { class: "tick end", x: right, y: bottom + 30 }, this.xLabel),
    );
    return found;
  }

  get stacked() {
    return this.kind === "stack" ? this.shown.filter((line) => !line.dashed) : [];
  }

  // Of the points that fall on one column of pixels, only the lowest and the highest are drawn.
  lines() {
    return this.shown
      .filter((line) => !this.stacked.includes(line))
      .map((line) => {
        const [first, last] = this.visible(line, this.view.x0, this.view.x1),
          points = [];
        let column = null,
          low,
          high;
        const flush = () => {
          if (column !== null) {
            points.push(low);
            if (high[0] !== low[0] || high[1] !== low[1]) points.push(high);
          }
        };
        for (let i = first; i <= last; i++) {
          const value = line.ys[i];
          if (!Number.isFinite(value) || (this.log && value <= 0)) continue;
          const point = [clamp(this.x(line.xs[i]), this.plot.left, this.plot.right), this.y(value)],
            at = Math.floor(point[0]);
          if (at !== column) {
            flush();
            column = at;
            low = high = point;
          } else if (point[1] > low[1]) low = point;
          else if (point[1] < high[1]) high = point;
        }
        flush();
        const d = points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
        const dots =
          points.length < 40
            ? points.map(([x, y]) => s("circle", { class: `dot c${line.colour}`, cx: x, cy: y, r: 2.4 }))
            : [];
        return [s("path", { class: `line c${line.colour}${line.dashed ? " dashed" : ""}`, d: d && `M${d}` }), ...dots];
      })
      .flat();
  }

  areas() {
    if (!this.stacked.length) return [];
    const base = this.stacked[0],
      [first, last] = this.visible(base, this.view.x0, this.view.x1),
      indices = [];
    for (let i = first, column = null; i <= last; i++) {
      const at = Math.floor(this.x(base.xs[i]));
      if (at !== column || i === last) {
        indices.push(i);
        column = at;
      }
    }
    const floor = indices.map(() => 0),
      found = [];
    for (const line of this.stacked) {
      const below = [...floor];
      indices.forEach((i, k) => {
        floor[k] += line.ys[i] || 0;
      });
      const point = (i, height) =>
        `${clamp(this.x(base.xs[i]), this.plot.left, this.plot.right).toFixed(1)} ${this.y(height).toFixed(1)}`;
      const up = indices.map((i, k) => point(i, floor[k])),
        down = indices.map((i, k) => point(i, below[k])).reverse();
      found.push(s("path", { class: `area c${line.colour}`, d: `M${[...up, ...down].join("L")}Z` }));
    }
    return found;
  }

  markLines() {
    const { left, right, top, bottom } = this.plot;
    const inside = this.marks().filter(({ x }) => x >= this.view.x0 && x <= this.view.x1);
    const rows = Math.min(this.marks().length, MARK_ROWS);
    return inside.flatMap(({ x, text }, i) => {
      const at = clamp(this.x(x), left, right),
        isLeft = at > (left + right) / 2,
        y = top + 9 - (rows - (i % rows)) * MARK_ROW;
      const most = Math.min(36, Math.floor((isLeft ? at - left : right - at) / 6.4)),
        words = text.length > most ? text.slice(0, most - 1) + "…" : text;
      return [
        s("line", { class: "mark", x1: at, x2: at, y1: y - 9, y2: bottom }),
        s("text", { class: `mark-text ${isLeft ? "end" : ""}`, x: at + (isLeft ? -4 : 4), y }, words),
      ];
    });
  }

  // ---- the same as text

  rows() {
    const places = new Map();
    this.shown.forEach((line, column) =>
      line.xs.forEach((x, i) => {
        if (!places.has(x)) places.set(x, [x, ...this.shown.map(() => null)]);
        places.get(x)[column + 1] = line.ys[i];
      }),
    );
    return [...places.values()].sort((a, b) => a[0] - b[0]);
  }

  csv() {
    return csvText([this.xLabel, ...this.shown.map((line) => line.name)], this.rows());
  }

  fillTable() {
    if (!this.tableBox.open || !this.shown) return;
    const rows = this.rows(),
      shown = rows
        .slice(-MOST_ROWS)
        .map((row) => [number(row[0]), ...row.slice(1).map((y) => (y === null ? "" : this.format(y)))]);
    const note = rows.length > MOST_ROWS ? `the last ${MOST_ROWS} of ${rows.length}; the CSV has all` : undefined;
    this.tableBox.replaceChildren(
      this.tableBox.firstElementChild,
      table([this.xLabel, ...this.shown.map((line) => line.name)], shown, {
        caption: note,
        label: `${this.title} as a table`,
      }),
    );
  }
}
