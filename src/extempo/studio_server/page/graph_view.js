// A graph to look at: modules that fold, loops that unroll, search, nodes that appear in the order in which they ran.

/* global insideOf, shapesText */

import { Camera } from "./camera.js";
import { clamp, h, s, table } from "./dom.js";
import { Timeline, drawGraph } from "./graph_drawing.js";
import { Player } from "./player.js";

const ROOT = 0;

export class GraphView {
  // onselect(n) is told which element is chosen (null: none), ontouch() that the user took over.
  constructor({ label, onselect = () => {}, ontouch = () => {} }) {
    Object.assign(this, { onselect, ontouch, capture: null, selected: null, found: [] });
    const keys = "Arrow keys go from node to node, Enter folds and unfolds, plus and minus zoom, 0 shows all.";
    this.ground = s("g", {});
    this.svg = s(
      "svg",
      {
        class: "graph",
        tabindex: 0,
        role: "group",
        "aria-roledescription": "graph",
        "aria-label": `${label}. ${keys}`,
      },
      this.ground,
    );
    this.camera = new Camera(this.svg, this.ground, (top, bottom) => this.drawing?.bands.show(top, bottom));
    this.player = new Player({
      ontime: (time) => this.showTime(time),
      onstep: () => this.camera.follow(this.placeOf(this.now)),
      ontouch,
    });
    this.said = h("p", { class: "visually-hidden", "aria-live": "polite" });
    this.list = h("details", { class: "as-table" }, h("summary", {}, "As a list, in the order in which it ran"));
    this.list.addEventListener("toggle", () => this.fillList());
    this.element = h(
      "div",
      { class: "graph-view" },
      this.makeBar(),
      h("div", { class: "stage" }, this.svg),
      this.player.element,
      this.said,
      this.list,
    );
    this.svg.addEventListener("click", (event) => this.click(event));
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  makeBar() {
    const button = (label, title, run) => h("button", { "aria-label": title, title, onclick: run }, label);
    this.search = h("input", {
      type: "search",
      placeholder: "Search",
      "aria-label": "Search ops, shapes, modules and lines",
      oninput: () => this.find(),
    });
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.nextFound(event.shiftKey ? -1 : 1);
    });
    this.count = h("span", { class: "faint", role: "status" });
    this.loopsButton = button("Unroll loops", "Unroll loops or roll them up", () => this.toggleLoops());
    this.weights = h("select", {
      "aria-label": "Shared weights: show the ops that read one",
      onchange: () => this.showWeight(this.weights.value),
    });
    const fold = button("Fold", "Fold everything", () =>
      this.change(() => {
        this.opened = new Set([ROOT]);
      }),
    );
    const unfold = button("Unfold", "Unfold everything", () =>
      this.change(() => {
        this.groups().forEach((n) => this.opened.add(n));
      }),
    );
    const zoom = [
      button("−", "Zoom out", () => this.camera.zoom(0.8)),
      button("+", "Zoom in", () => this.camera.zoom(1.25)),
      button("Fit", "See all of it", () => this.camera.fitAgain()),
    ];
    return h(
      "div",
      { class: "bar", role: "group", "aria-label": "View" },
      this.search,
      this.count,
      fold,
      unfold,
      this.loopsButton,
      this.weights,
      h("span", { class: "zoom" }, zoom),
    );
  }

  groups() {
    return this.E.flatMap((e, n) => (e.mem !== undefined && n !== ROOT ? [n] : []));
  }
  isGroup(n) {
    return this.E[n].mem !== undefined;
  }

  // The groups around an element, the outermost first.
  around(n) {
    const found = [];
    for (let up = this.E[n].up; up !== undefined && up !== ROOT; up = this.E[up].up) found.unshift(up);
    return found;
  }

  // ---- what is shown

  show(capture) {
    Object.assign(this, {
      capture,
      graph: capture.graph,
      E: capture.graph.elements,
      timeline: new Timeline(capture),
      selected: null,
      now: null,
    });
    this.opened = new Set([ROOT, ...this.graph.opened]);
    this.unrolled = new Set(this.graph.unrolled);
    this.shared = sharedWeights(this.E);
    this.users = usersOf(this.E);
    this.loopsButton.hidden = !this.E.some((e) => e.per);
    this.loopsButton.textContent = "Unroll loops";
    this.weights.hidden = !this.shared.size;
    const names = [...this.shared].map(([name, users]) => h("option", { value: name }, `${name}, ${users.length} ops`));
    this.weights.replaceChildren(h("option", { value: "" }, `Shared weights (${this.shared.size})`), ...names);
    this.player.load(this.timeline.end);
    this.camera.reset();
    this.draw();
    this.camera.fit();
    this.find();
    this.fillList();
    this.onselect(null);
  }

  play(onend) {
    this.player.play(onend);
  }

  draw() {
    this.drawing = drawGraph(this.graph, this.opened, this.unrolled, this.timeline, {
      status: this.capture.diff?.status,
      shared: this.shared,
    });
    this.camera.size = this.drawing.layout;
    this.pointer = 0;
    this.ground.replaceChildren(this.drawing.bands.root);
    this.camera.look();
    this.player.set(this.player.time);
    this.markSelected();
    this.markFound();
  }

  // Shows a moment, by what changed since the last one; the moment in words.
  showTime(time) {
    if (!this.timeline) return "";
    const { events, loops, boxes, view } = this.drawing;
    for (; this.pointer < events.length && events[this.pointer][0] <= time; this.pointer++)
      events[this.pointer][1].classList.add(events[this.pointer][2]);
    for (; this.pointer > 0 && events[this.pointer - 1][0] > time; this.pointer--)
      events[this.pointer - 1][1].classList.remove(events[this.pointer - 1][2]);
    for (const count of loops) count(time);
    this.now = this.timeline.at(time);
    this.ground.querySelector(".now")?.classList.remove("now");
    const isWithin = this.now !== null && time < this.timeline.end;
    if (isWithin) boxes.get(view.boxOf.get(this.now))?.classList.add("now");
    this.ground.classList.toggle("backward", isWithin && this.timeline.isBackward(time));
    return this.words(time);
  }

  words(time) {
    const { nForward, end } = this.timeline;
    if (this.now === null) return `nothing ran yet, ${nForward} to come`;
    if (time === end && end > nForward) return `${nForward} ran, ${end - nForward} gradients`;
    const e = this.E[this.now],
      name = e.k === "input" ? e.t : e.op,
      place = e.w ? `, ${e.w.split("/").pop()}` : "";
    if (this.timeline.isBackward(time)) return `gradient ${time - nForward} of ${end - nForward}: ${name}${place}`;
    return `${time} of ${nForward}: ${name} ${shapesText(e.s)}${place}`;
  }

  // ---- folding

  change(run, around) {
    if (!this.graph) return;
    this.ontouch();
    const before = this.drawing.layout.boxes.get(around);
    run();
    this.draw();
    const after = this.drawing.layout.boxes.get(around);
    if (before && after) this.camera.keep(before, after);
    else this.camera.fit();
  }
  unrollOne(n) {
    this.unrolled.add(n);
    this.opened.add(n);
  }
  fold(n) {
    this.change(() => {
      if (!this.opened.delete(n)) this.opened.add(n);
    }, n);
  }
  unroll(n) {
    this.change(() => {
      if (!this.unrolled.delete(n)) this.unrollOne(n);
    }, n);
  }
  toggleLoops() {
    const loops = this.groups().filter((n) => this.E[n].per),
      isUnrolled = loops.every((n) => this.unrolled.has(n));
    this.change(() =>
      loops.forEach((n) => {
        if (isUnrolled) this.unrolled.delete(n);
        else this.unrollOne(n);
      }),
    );
    this.loopsButton.textContent = isUnrolled ? "Unroll loops" : "Roll up loops";
  }
  // Opens what is around some elements.
  reveal(...elements) {
    const closed = elements.flatMap((n) => this.around(n)).filter((n) => !this.opened.has(n));
    closed.forEach((n) => this.opened.add(n));
    if (closed.length) this.draw();
  }

  // ---- choosing and finding

  boxNumber(n) {
    return this.isGroup(n) ? n : this.drawing.view.boxOf.get(n);
  }
  placeOf(n) {
    return n === null ? undefined : this.drawing.layout.boxes.get(this.boxNumber(n));
  }
  elementOf(n) {
    const { boxes, frames } = this.drawing;
    return boxes.get(n) ?? frames.get(n) ?? boxes.get(this.drawing.view.boxOf.get(n));
  }

  select(n, { centre = false } = {}) {
    this.selected = n;
    if (n !== null && centre) {
      this.reveal(n);
      this.camera.centreOn(this.placeOf(n));
    }
    this.markSelected();
    if (n !== null) this.said.textContent = this.describe(n);
    this.onselect(n);
  }
  describe(n) {
    const e = this.E[n];
    if (this.isGroup(n))
      return `${e.kind} ${e.t}, ${insideOf(this.graph, n).length} ops, ${this.opened.has(n) ? "unfolded" : "folded"}`;
    return [e.k === "input" ? "input" : e.op, e.t === e.op ? "" : e.t, ...e.y, e.w, e.m ? `failed: ${e.m}` : ""]
      .filter(Boolean)
      .join(", ");
  }
  markSelected() {
    this.ground.querySelector(".selected")?.classList.remove("selected");
    if (this.selected !== null) this.elementOf(this.selected)?.classList.add("selected");
  }
  find() {
    const words = this.search.value.trim().toLowerCase();
    if (!this.E) return;
    const texts = (e) => [e.t, e.op, e.d, e.w, e.a, ...(e.s ?? []), ...(e.p ?? []).map(([name]) => name)];
    const fits = (e) => texts(e).some((text) => text && text.toLowerCase().includes(words));
    this.setFound(
      words ? this.E.flatMap((e, n) => (n !== ROOT && fits(e) ? [n] : [])) : [],
      words && ((n) => `${n} found`),
    );
  }
  showWeight(name) {
    const users = name ? this.shared.get(name) : [];
    this.reveal(...users);
    this.setFound(users, name && ((n) => `${n} ops read ${name}`));
  }
  setFound(found, say) {
    this.found = found;
    this.foundAt = -1;
    this.count.textContent = say ? say(found.length) : "";
    this.markFound();
  }
  nextFound(by) {
    if (!this.found.length) return;
    this.foundAt = (Math.max(this.foundAt + by, -1) + this.found.length) % this.found.length;
    this.count.textContent = `${this.foundAt + 1} of ${this.found.length}`;
    this.select(this.found[this.foundAt], { centre: true });
  }
  markFound() {
    for (const hit of this.ground.querySelectorAll(".hit")) hit.classList.remove("hit");
    for (const n of this.found) this.elementOf(n)?.classList.add("hit");
  }

  // ---- mouse and keys

  click(event) {
    if (this.camera.hasMoved || !this.graph) return;
    const toggle = event.target.closest("[data-fold]"),
      hit = event.target.closest("[data-n]");
    this.ontouch();
    if (toggle) this.fold(Number(toggle.dataset.fold));
    else this.select(hit ? Number(hit.dataset.n) : null);
  }

  key(event) {
    if (!this.graph || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = () => this.move(1),
      previous = () => this.move(-1);
    const acts = {
      ArrowRight: next,
      ArrowDown: next,
      ArrowLeft: previous,
      ArrowUp: previous,
      Enter: () => this.foldSelected(),
      Escape: () => this.select(null),
      " ": () => this.player.playButton.click(),
      ".": () => this.step(1),
      ",": () => this.step(-1),
      "/": () => this.search.focus(),
      "+": () => this.camera.zoom(1.25),
      "-": () => this.camera.zoom(0.8),
      0: () => this.camera.fitAgain(),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    this.ontouch();
    acts[event.key]();
  }
  // The box before or after the chosen one, in the order in which they ran.
  move(by) {
    const { boxes } = this.drawing.view,
      at = this.selected === null ? -1 : boxes.indexOf(this.boxNumber(this.selected));
    this.select(boxes[clamp(at + by, 0, boxes.length - 1)], { centre: true });
  }
  foldSelected() {
    if (this.selected === null || !this.isGroup(this.selected)) return;
    this.fold(this.selected);
    this.said.textContent = this.describe(this.selected);
  }
  step(by) {
    this.player.step(by);
    this.said.textContent = this.player.moment.textContent;
  }

  // ---- as text

  fillList() {
    if (!this.list.open || !this.timeline) return;
    const row = (n, i) => {
      const e = this.E[n],
        inside = this.around(n)
          .map((up) => this.E[up].t)
          .join(" › ");
      return [String(i + 1), e.k === "input" ? e.t : e.op, e.y.join(", "), inside, e.w.split("/").pop(), e.m || e.st];
    };
    this.list.replaceChildren(
      this.list.firstElementChild,
      table(["", "op", "gives", "in", "line", ""], this.timeline.order.map(row), {
        label: "The ops in the order in which they ran",
      }),
    );
  }
}

function collect(pairs) {
  const found = new Map();
  for (const [key, value] of pairs) {
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(value);
  }
  return found;
}

// Of each element, those that read its result.
const usersOf = (elements) => collect(elements.flatMap((e, n) => (e.i ?? []).map((input) => [input, n])));

// Parameters that more than one op reads, with those ops; constants have no name to share.
function sharedWeights(elements) {
  const users = collect(
    elements.flatMap((e, n) => (e.p ?? []).filter(([, , learns]) => learns).map(([name]) => [name, n])),
  );
  return new Map([...users].map(([name, ops]) => [name, [...new Set(ops)]]).filter(([, ops]) => ops.length > 1));
}
