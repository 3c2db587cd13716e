// The cursor of a chart: shows the numbers at a step, and chooses the part of the steps to zoom into, by mouse or by keys.

import { clamp, h, number, s } from "./dom.js";

const LEAST_DRAG = 6; // pixels: less is a click
const LEAST_STEPS = 2; // that a zoom shows

export class ChartCursor {
  constructor(chart) {
    Object.assign(this, { chart, step: null, start: null }); // the step that is shown, and where a drag began
    this.line = s("g", { "data-transient": true });
    this.tip = h("div", { class: "tip", hidden: true });
    this.listen();
  }

  get isReady() {
    return this.chart.shown?.length && this.chart.view;
  }

  // Shows the numbers at the point that is nearest to a step.
  point(step) {
    const { chart } = this,
      { xs } = chart.shown[0],
      [near] = chart.visible(chart.shown[0], step, step),
      next = Math.min(near + 1, xs.length - 1);
    const x = Math.abs(xs[near] - step) <= Math.abs(xs[next] - step) ? xs[near] : xs[next],
      at = chart.x(x),
      { top, bottom, left, right } = chart.plot;
    if (at < left - 1 || at > right + 1) {
      this.hide();
      return;
    }
    this.step = x;
    this.line.replaceChildren(s("line", { class: "cursor", x1: at, x2: at, y1: top, y2: bottom }));
    this.tip.replaceChildren(
      h("div", { class: "faint" }, `${chart.xLabel} ${number(x)}`),
      ...chart.shown.map((line) => this.valueAt(line, x)).filter(Boolean),
    );
    this.tip.hidden = false;
    const room = chart.svg.parentElement.clientWidth,
      wide = this.tip.offsetWidth;
    this.tip.style.left = `${at + wide + 16 < room ? at + 10 : Math.max(0, at - wide - 10)}px`;
    this.tip.style.top = `${top}px`;
  }

  valueAt(line, x) {
    const [first] = this.chart.visible(line, x, x),
      i = line.xs[first] === x ? first : first + 1;
    if (line.xs[i] !== x) return null;
    return h(
      "div",
      {},
      h("span", { class: `swatch c${line.colour}` }),
      `${line.name} `,
      h("b", {}, this.chart.format(line.ys[i])),
    );
  }

  hide() {
    this.step = null;
    this.line.replaceChildren();
    this.tip.hidden = true;
  }

  // After the chart was drawn anew.
  redraw() {
    if (this.step !== null) this.point(this.step);
  }

  zoom(factor) {
    const { view, whole, range } = this.chart,
      middle = this.step ?? (view.x0 + view.x1) / 2,
      half = ((view.x1 - view.x0) * factor) / 2;
    const from = Math.max(whole[0], middle - half),
      to = Math.min(whole[1], middle + half);
    if (from <= whole[0] && to >= whole[1]) range.set(null, null);
    else if (to - from >= LEAST_STEPS) range.set(from, to);
  }

  // ---- mouse, fingers, keys

  listen() {
    const { svg, range } = this.chart;
    svg.addEventListener("pointerdown", (event) => {
      if (!this.isReady || event.pointerType === "touch") return;
      this.start = this.place(event);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (this.isReady) this.moved(this.place(event));
    });
    svg.addEventListener("pointerup", (event) => {
      if (this.start !== null) this.lifted(this.place(event));
    });
    svg.addEventListener("pointerleave", () => {
      if (this.start === null) this.hide();
    });
    svg.addEventListener("dblclick", () => range.set(null, null));
    svg.addEventListener("blur", () => this.hide());
    svg.addEventListener("keydown", (event) => {
      if (this.isReady && this.key(event.key)) event.preventDefault();
    });
  }

  place(event) {
    const { svg, plot } = this.chart;
    return clamp(event.clientX - svg.getBoundingClientRect().left, plot.left, plot.right);
  }

  moved(at) {
    this.point(this.chart.xAt(at));
    if (this.start === null) return;
    const { top, bottom } = this.chart.plot;
    this.line.append(
      s("rect", {
        class: "brush",
        x: Math.min(this.start, at),
        y: top,
        width: Math.abs(at - this.start),
        height: bottom - top,
      }),
    );
  }

  lifted(at) {
    const [from, to] = [this.chart.xAt(this.start), this.chart.xAt(at)].sort((a, b) => a - b),
      isDrag = Math.abs(at - this.start) > LEAST_DRAG;
    this.start = null;
    if (isDrag && to - from >= LEAST_STEPS) this.chart.range.set(from, to);
  }

  // Whether a key does something here.
  key(name) {
    const { xs } = this.chart.shown[0],
      last = xs.length - 1,
      at = this.step === null ? last : xs.indexOf(this.step),
      far = Math.max(1, Math.round(xs.length / 20));
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - far, PageDown: at + far, Home: 0, End: last }[
      name
    ];
    if (to !== undefined) this.point(xs[clamp(to, 0, last)]);
    else if (name === "+") this.zoom(0.5);
    else if (name === "-") this.zoom(2);
    else if (name === "0") this.chart.range.set(null, null);
    else return false;
    return true;
  }
}
