// A captured graph as SVG elements that know when they appear: by the order of the run, then by that of backward.
// What is seen and where it stands comes from viewer.js, the offline page's script, which is loaded before this one.

/* global makeView, layOut, linesOf, insideOf, shapesText, pillText, short */

import { Bands } from "./bands.js";
import { s } from "./dom.js";

const round = (x) => Math.round(x * 10) / 10;

// When things happen: `time` t means that the first t entries of `order` ran; after them gradients, in their order.
export class Timeline {
  constructor({ graph, order, backward }) {
    this.order = order;
    this.backward = backward ?? [];
    this.nForward = order.length;
    this.end = this.nForward + this.backward.length;
    this.ran = new Map(order.map((n, i) => [n, i + 1]));
    this.graded = new Map(this.backward.map((n, i) => [n, this.nForward + i + 1]));
    graph.elements.forEach((e, n) => {
      if (e.mem === undefined && !this.ran.has(n)) this.ran.set(n, 0);
    });
  }

  // The item that time t is about: the one that just ran, or whose gradient was just found.
  at(time) {
    return time <= 0 ? null : time <= this.nForward ? this.order[time - 1] : this.backward[time - this.nForward - 1];
  }
  isBackward(time) {
    return time > this.nForward;
  }
}

// Everything drawn: { bands, boxes, frames, layout, view, events }; events are [time, element, class] in order of time.
export function drawGraph(graph, opened, unrolled, timeline, { status = {}, shared = new Map() } = {}) {
  const view = makeView(graph, opened, unrolled),
    layout = layOut(graph, view, 0),
    E = graph.elements;
  const drawing = {
    view,
    layout,
    boxes: new Map(),
    frames: new Map(),
    loops: [],
    events: [],
    bands: new Bands("frames", "edges", "titles", "boxes", "labels"),
  };
  const appear = timesOf(view.boxOf, timeline.ran),
    grade = timesOf(view.boxOf, timeline.graded);
  const event = (time, element, name) => {
    if (time !== undefined && Number.isFinite(time)) drawing.events.push([time, element, name]);
  };
  const add = (layer, { y, height = 0 }, element, time) => {
    drawing.bands.add(layer, element, y, y + height);
    event(time, element, "on");
    return element;
  };

  const frames = view.frames.slice(1),
    frameTime = (n) => Math.min(...insideOf(graph, n).map((item) => timeline.ran.get(item)));
  for (const n of frames) {
    const b = layout.boxes.get(n);
    add(
      "frames",
      b,
      s(
        "g",
        { class: `frame ${E[n].kind}`, "data-n": n },
        s("rect", { x: round(b.x), y: round(b.y), width: round(b.width), height: round(b.height), rx: 8 }),
      ),
      frameTime(n),
    );
  }
  for (const edge of edgesOf(graph, view, layout, timeline)) {
    const line = s("path", { class: edge.carried ? "edge carried" : "edge", d: edge.d });
    add("edges", edge, line, edge.ran);
    event(edge.graded, line, "grad");
    if (edge.head) {
      const head = add("edges", edge, s("path", { class: "head", d: edge.head }), edge.ran);
      event(edge.graded, head, "grad");
    }
    if (edge.label)
      add(
        "labels",
        edge,
        s("text", { class: "shape", x: round(edge.label.x), y: round(edge.label.y) }, edge.label.text),
        edge.ran,
      );
  }
  for (const n of frames) {
    const b = layout.boxes.get(n);
    const title = s(
      "g",
      { class: "fold", "data-fold": n },
      s("rect", { class: "catch", x: round(b.x), y: round(b.y), width: round(b.width), height: 24, rx: 8 }),
      s("text", { x: round(b.x + 10), y: round(b.y + 17), class: "frame-title" }, `▾ ${E[n].t}`),
    );
    drawing.frames.set(n, add("titles", { y: b.y, height: 24 }, title, frameTime(n)));
    if (E[n].per) drawing.loops.push(loopOf(graph, n, timeline, title.lastChild, (words) => `▾ ${words}`));
  }
  const inside = itemsOf(view.boxOf);
  for (const n of view.boxes) {
    const place = layout.boxes.get(n),
      element = boxOf(graph, n, place, inside.get(n) ?? [], status, shared),
      box = add("boxes", place, element, appear.get(n));
    drawing.boxes.set(n, box);
    event(grade.get(n), box, "graded");
    if (E[n].per) drawing.loops.push(loopOf(graph, n, timeline, box.querySelector(".title"), (words) => words));
  }
  for (const [source, label] of labelsOf(graph, view, layout))
    add(
      "labels",
      label,
      s("text", { class: label.isLeft ? "shape end" : "shape", x: round(label.x), y: round(label.y) }, label.text),
      appear.get(source),
    );
  drawing.events.sort((a, b) => a[0] - b[0]);
  return drawing;
}

// The items that each box stands for: those inside of it, in all turns of loops that are rolled up.
function itemsOf(boxOf) {
  const found = new Map();
  for (const [item, box] of boxOf) {
    if (!found.has(box)) found.set(box, []);
    found.get(box).push(item);
  }
  return found;
}

// The earliest time of the items in each box.
function timesOf(boxOf, times) {
  const found = new Map();
  for (const [item, box] of boxOf) {
    const time = times.get(item);
    if (time !== undefined && time < (found.get(box) ?? Infinity)) found.set(box, time);
  }
  return found;
}

// A loop that counts its turns while they run: `cell x 3 of 7`.
function loopOf(graph, n, timeline, text, say) {
  const e = graph.elements[n],
    starts = [];
  for (let i = 0; i < e.mem.length; i += e.per)
    starts.push(Math.min(...insideOf(graph, e.mem[i]).map((item) => timeline.ran.get(item))));
  const whole = say(short(e.t, 44)),
    name = e.t.replace(/ x \d+$/, "");
  return (time) => {
    const turns = starts.filter((start) => start <= time).length;
    text.textContent =
      turns === starts.length || turns === 0 ? whole : say(short(`${name} x ${turns} of ${starts.length}`, 48));
  };
}

// One line for every edge between boxes, and one for the lane of a value that several of them share.
function edgesOf(graph, view, layout, timeline) {
  const ran = new Map(),
    graded = new Map(),
    lanes = new Map(),
    E = graph.elements;
  const least = (map, key, time) => {
    if (time !== undefined && time < (map.get(key) ?? Infinity)) map.set(key, time);
  };
  for (const [item, target] of view.boxOf) {
    for (const input of E[item].i) {
      const source = view.boxOf.get(input),
        key = `${source},${target}`,
        flows = E[input].g && E[item].g;
      least(ran, key, timeline.ran.get(item));
      least(lanes, source, timeline.ran.get(item));
      if (flows) {
        least(graded, key, timeline.graded.get(item));
        least(graded, `${source},-1`, timeline.graded.get(item));
      }
    }
  }
  const found = new Map();
  for (const { source, target, x0, y0, x1, y1: end } of layout.segments) {
    const key = `${source},${target}`,
      isEnd = target !== -1,
      y1 = isEnd ? end - 6 : end,
      bend = Math.max(12, (y1 - y0) / 2);
    const d =
      Math.abs(x0 - x1) < 0.5
        ? `M${round(x0)} ${round(y0)}V${round(y1)}`
        : `M${round(x0)} ${round(y0)}C${round(x0)} ${round(y0 + bend)} ${round(x1)} ${round(y1 - bend)} ${round(x1)} ${round(y1)}`;
    if (!found.has(key))
      found.set(key, {
        d: "",
        head: "",
        y: y0,
        height: 0,
        ran: isEnd ? ran.get(key) : lanes.get(source),
        graded: graded.get(key),
      });
    const edge = found.get(key),
      top = Math.min(edge.y, y0);
    Object.assign(edge, { d: edge.d + d, y: top, height: Math.max(edge.y + edge.height, end) - top });
    if (isEnd) edge.head += `M${round(x1 - 4)} ${round(end - 7)}h8l-4 7z`;
  }
  const edges = [...found.values()];
  for (const { source, target, carried } of view.edges) {
    if (!carried) continue;
    const a = layout.boxes.get(source),
      b = layout.boxes.get(target),
      self = source === target,
      more = (n) => (E[n].mem === undefined ? 0 : 3),
      key = `${source},${target}`;
    const ax = a.x + a.width + more(source),
      bx = b.x + b.width + more(target),
      ay = a.y + a.height * (self ? 0.72 : 0.5),
      by = b.y + b.height * (self ? 0.28 : 0.5);
    const frame = layout.boxes.get(view.frameOf.get(target)),
      room = graph.constants.CARRY / 2,
      out = self ? Math.max(ax, bx) + room : frame.x + frame.width - room;
    edges.push({
      d: `M${round(ax)} ${round(ay)}H${round(out)}V${round(by)}H${round(bx + 6)}`,
      head: `M${round(bx)} ${round(by)}l7 -4v8z`,
      carried: true,
      y: Math.min(ay, by),
      height: Math.abs(ay - by),
      ran: ran.get(key),
      graded: graded.get(key),
    });
  }
  for (const { source, target, x, y } of layout.stubs) {
    const key = `${source},${target}`;
    edges.push({
      d: `M${round(x)} ${round(y - 16)}v10`,
      head: `M${round(x - 4)} ${round(y - 7)}h8l-4 7z`,
      carried: true,
      y: y - 30,
      height: 30,
      ran: ran.get(key) ?? lanes.get(source),
      graded: graded.get(key),
      label: { x: x - 18, y: y - 19, text: short(E[source].t, 14) },
    });
  }
  return edges;
}

// The shape of a value, where it leaves its box.
function labelsOf(graph, view, layout) {
  const carried = new Map(view.edges.map((edge) => [edge.source, edge.item])),
    found = new Map();
  for (const { source, x0, y0, x1 } of layout.segments) {
    const b = layout.boxes.get(source);
    if (!b || found.has(source) || Math.abs(y0 - b.y - b.height) >= 0.5) continue;
    const isLeft = x1 > x0 + 8; // where the line does not go
    found.set(source, {
      x: x0 + (isLeft ? -5 : 5),
      y: y0 + 12,
      isLeft,
      text: short(shapesText(graph.elements[carried.get(source)].s), 30),
    });
  }
  return found;
}

function boxOf(graph, n, b, inside, status, shared) {
  const e = graph.elements[n],
    isGroup = e.mem !== undefined,
    [title, small] = linesOf(graph, n),
    x = b.x + b.pills,
    w = b.width - b.pills;
  const states = inside.map((item) => status[item] || graph.elements[item].st);
  const state =
    states.length && states.every((found) => found === "added") ? "added" : states.some(Boolean) ? "changed" : "";
  const isBad = inside.some((item) => graph.elements[item].k === "error");
  const names = [
    "box",
    isGroup ? "folded" : e.k,
    state,
    isBad ? "error" : "",
    inside.some((item) => graph.elements[item].out) ? "output" : "",
  ].filter(Boolean);
  const rect = (by, name) =>
    s("rect", {
      class: name,
      x: round(x + by),
      y: round(b.y + by),
      width: round(w),
      height: round(b.height),
      rx: !isGroup && e.k !== "op" ? 14 : 6,
    });
  const parts = isGroup ? [rect(3, "shade"), rect(0, "face")] : [rect(0, "face")];
  const lines = [small, e.m ? short(e.m, 70) : "", e.n?.length ? short(e.n[0], 44) : ""];
  let y = b.y + b.height / 2 - lines.filter(Boolean).length * 6.5 + 4;
  parts.push(s("text", { class: "title", x: round(x + w / 2), y: round(y) }, title));
  lines.forEach((line, i) => {
    if (line)
      parts.push(
        s(
          "text",
          { class: i === 1 ? "small-print bad" : "small-print", x: round(x + w / 2), y: round((y += 13.5)) },
          line,
        ),
      );
  });
  if (isGroup)
    parts.push(
      s(
        "g",
        { class: "fold", "data-fold": n },
        s("circle", { cx: round(x + w - 1), cy: round(b.y + 1), r: 8 }),
        s("text", { class: "plus", x: round(x + w - 1), y: round(b.y + 5) }, "+"),
      ),
    );
  if (e.p?.length) parts.push(...pillsOf(graph, e.p, b, shared));
  return s("g", { class: names.join(" "), "data-n": n }, parts);
}

// Parameters stand beside the op that reads them; one that several ops share has a look of its own.
function pillsOf(graph, parameters, b, shared) {
  const step = graph.constants.PILL_HEIGHT + 3,
    wide = b.pills - 14,
    end = b.x + b.pills;
  let y = b.y + (b.height - parameters.length * step + 3) / 2;
  return parameters.flatMap((p) => {
    const top = y,
      middle = y + graph.constants.PILL_HEIGHT / 2,
      users = shared.get(p[0]);
    y += step;
    return [
      s(
        "rect",
        {
          class: ["pill", p[2] ? "learns" : "", users ? "shared" : ""].join(" "),
          "data-weight": p[0],
          x: round(b.x),
          y: round(top),
          width: round(wide),
          height: 17,
          rx: 8.5,
        },
        s("title", {}, `${p[0]} ${p[1]}${users ? `, shared by ${users.length} ops` : ""}`),
      ),
      s("text", { class: "small-print pill-text", x: round(b.x + wide / 2), y: round(top + 12) }, pillText(p)),
      s("path", { class: "edge on", d: `M${round(b.x + wide)} ${round(middle)}H${round(end - 5)}` }),
      s("path", { class: "head on", d: `M${round(end - 6)} ${round(middle - 3.5)}v7l6 -3.5z` }),
    ];
  });
}
