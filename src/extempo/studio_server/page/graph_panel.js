// The graph as it forms: the newest captured iteration, what differs from the one before, and what is known of a node.

/* global insideOf */

import { h, table } from "./dom.js";
import { GraphView } from "./graph_view.js";
import { codeBlock, heatMap, histogram } from "./pictures.js";

const MOST_KEPT = 20,
  MOST_LINKS = 12;

export class GraphPanel {
  constructor(store, ask) {
    Object.assign(this, { store, ask, isLive: true, kept: new Map(), next: null });
    this.view = new GraphView({
      label: "The computation graph",
      onselect: (n) => this.showNode(n),
      ontouch: () => this.setLive(false),
    });
    this.live = h(
      "button",
      { class: "live", "aria-pressed": "true", onclick: () => this.setLive(!this.isLive) },
      "Live",
    );
    this.choose = h("select", {
      "aria-label": "Captured iteration",
      onchange: () => {
        this.setLive(false);
        this.showNumber(Number(this.choose.value));
      },
    });
    this.said = h("p", { class: "line" });
    this.error = h("div", { class: "alert", role: "alert", hidden: true });
    this.changes = h("details", { class: "changes", hidden: true });
    this.details = h("aside", { class: "details card", "aria-label": "Node" });
    this.empty = h(
      "p",
      { class: "empty-panel" },
      "No iteration was captured yet. The graph appears here when the program runs its first one.",
    );
    this.body = h("div", { class: "graph-body", hidden: true }, this.view.element, this.details);
    this.element = h(
      "div",
      { class: "graph-panel" },
      h("div", { class: "row" }, this.live, this.choose, this.said),
      this.error,
      this.changes,
      this.empty,
      this.body,
    );
    store.on("hello", () => {
      this.kept.clear();
      this.next = null;
      this.error.hidden = true;
      this.setLive(true);
    });
    store.on("capture", (capture) => this.take(capture));
    store.on("error", (error) => this.showError(error));
    store.on("state", () => this.say());
    this.showNode(null);
  }

  setLive(isLive) {
    this.isLive = isLive;
    this.live.setAttribute("aria-pressed", String(isLive));
    if (isLive && this.next) this.showNext();
  }

  // While one graph plays, the newest waits: what came between is skipped.
  take(capture) {
    this.keep(capture);
    this.next = capture;
    if (this.isLive && !this.isBusy) this.showNext();
  }

  keep(capture) {
    this.kept.delete(capture.number);
    this.kept.set(capture.number, capture);
    while (this.kept.size > MOST_KEPT) this.kept.delete(this.kept.keys().next().value);
    const numbers = [...this.kept.keys()].reverse();
    this.choose.replaceChildren(
      ...numbers.map((n) =>
        h("option", { value: n }, `${this.kept.get(n).title || `capture ${n}`} (${this.kept.get(n).n_ops} ops)`),
      ),
    );
    if (this.shown) this.choose.value = this.shown.number;
  }

  showNext() {
    const capture = this.next;
    this.next = null;
    this.show(capture);
    if (this.element.checkVisibility() && !matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.isBusy = true;
      this.view.play(() => {
        setTimeout(() => {
          this.isBusy = false;
          if (this.isLive && this.next) this.showNext();
        }, 1200);
      });
    } else this.isBusy = false;
  }

  showNumber(number) {
    if (this.kept.has(number)) this.show(this.kept.get(number));
  }

  show(capture) {
    this.isBusy = false;
    this.shown = capture;
    this.empty.hidden = true;
    this.body.hidden = false;
    this.choose.value = capture.number;
    this.view.show(capture);
    this.say();
    this.showChanges(capture.diff);
  }

  say() {
    const capture = this.shown,
      state = this.store.state;
    if (!capture) return;
    const parts = [`${capture.n_ops} ops in ${(1000 * capture.seconds).toFixed(1)} ms`];
    if (capture.left_out) parts.push(`${capture.left_out} more are not drawn`);
    if (state?.message) parts.push(state.message);
    this.said.textContent = parts.join(" · ");
  }

  showChanges(diff) {
    this.changes.hidden = !diff?.text;
    if (!diff?.text) return;
    const rows = (diff.changes ?? []).slice(0, 200).map((c) => [c.kind, c.op, c.module, c.before, c.after]);
    this.changes.replaceChildren(
      h(
        "summary",
        {},
        h("span", { class: "swatch added" }),
        h("span", { class: "swatch changed" }),
        `Against the iteration before: ${diff.text}`,
      ),
      rows.length
        ? table(["", "op", "in", "before", "now"], rows, { label: "What differs from the iteration before" })
        : "",
    );
  }

  showError(error) {
    this.error.hidden = false;
    this.error.replaceChildren(
      h("h3", {}, "The program raised an error"),
      h("pre", { class: "message" }, error.message),
      h(
        "details",
        {},
        h("summary", {}, error.where ? `At ${error.where.split("/").pop()}, and the way there` : "The way there"),
        codeBlock(error.code, error.where),
        error.traceback ? h("pre", { tabindex: 0, "aria-label": "Traceback" }, error.traceback) : null,
      ),
    );
    if (!error.capture) return;
    this.keep(error.capture);
    this.next = null;
    this.setLive(false);
    this.show(error.capture);
    const failing = error.capture.graph.elements.findIndex((e) => e.k === "error");
    if (failing >= 0) this.view.select(failing, { centre: true });
  }

  // ---- what is known of a node

  showNode(n) {
    this.asked = n;
    if (n === null) {
      this.details.replaceChildren(
        h(
          "p",
          { class: "faint" },
          "Choose a node to see its op, shape, line, value and gradient. A folded group opens with its +, or with Enter.",
        ),
      );
      return;
    }
    const { view } = this,
      e = view.E[n];
    if (view.isGroup(n)) {
      this.details.replaceChildren(...this.groupParts(n, e));
      return;
    }
    this.values = h("div", { class: "values", "aria-live": "polite" }, h("p", { class: "faint" }, "Reading values …"));
    this.details.replaceChildren(...this.opParts(n, e), this.values, codeBlock(view.graph.code[e.w], e.w) ?? "");
    const capture = view.capture.number;
    if (capture < 0) {
      this.values.replaceChildren(e.v ? h("p", {}, e.v) : "");
      return;
    }
    this.ask("node", { capture, node: n }).then(
      (answer) => {
        if (this.asked === n && view.capture.number === capture) this.showValues(answer);
      },
      (problem) => {
        if (this.asked === n) this.values.replaceChildren(h("p", { class: "bad" }, problem.message));
      },
    );
  }

  where(n) {
    const names = this.view.around(n).map((up) => this.view.E[up].t);
    return names.length ? h("p", { class: "faint" }, `in ${names.join(" › ")}`) : null;
  }

  groupParts(n, e) {
    const { view } = this,
      facts = [
        ["kind", e.kind],
        ["class", e.kind === "module" ? e.d : ""],
        ["turns", e.per ? e.mem.length / e.per : ""],
        ["ops", insideOf(view.graph, n).length],
        ["parameters", e.np || ""],
        ["line", e.w.split("/").pop()],
      ];
    const act = (label, run) =>
      h(
        "button",
        {
          onclick: () => {
            run();
            this.showNode(n);
          },
        },
        label,
      );
    return [
      h("h3", {}, e.t),
      this.where(n),
      h(
        "p",
        { class: "row" },
        act(view.opened.has(n) ? "Fold" : "Unfold", () => view.fold(n)),
        e.per ? act(view.unrolled.has(n) ? "Roll up" : "Unroll", () => view.unroll(n)) : null,
      ),
      table(
        null,
        facts.filter(([, value]) => value !== ""),
        { label: e.t },
      ),
      codeBlock(view.graph.code[e.w], e.w),
    ].filter(Boolean);
  }

  opParts(n, e) {
    const { view } = this,
      link = (m) => h("button", { class: "link", onclick: () => view.select(m, { centre: true }) }, view.E[m].t);
    const facts = [
      ["op", e.op],
      ["arguments", e.a],
      ["gives", e.y.join(", ")],
      ["gradient", e.g ? "flows through" : "none"],
      ["line", e.w.split("/").pop()],
      ["against before", view.capture.diff?.status?.[n] ?? e.st],
    ];
    const links = (title, items) =>
      items?.length
        ? h(
            "p",
            {},
            `${title} `,
            items.slice(0, MOST_LINKS).flatMap((m, i) => [i ? ", " : "", link(m)]),
            items.length > MOST_LINKS ? ` and ${items.length - MOST_LINKS} more` : "",
          )
        : null;
    const shared = (name) => (view.shared.has(name) ? `, shared by ${view.shared.get(name).length} ops` : "");
    return [
      h("h3", {}, e.t),
      this.where(n),
      e.m ? h("pre", { class: "message bad" }, e.m) : null,
      table(
        null,
        facts.filter(([, value]) => value),
        { label: e.t },
      ),
      ...(e.n ?? []).map((note) => h("p", { class: "faint" }, note)),
      ...(e.p ?? []).map(([name, shape, learns]) =>
        h("p", {}, h("code", {}, name), ` ${shape}${learns ? "" : ", not learned"}${shared(name)}`),
      ),
      links("From", e.i),
      links("Used by", view.users.get(n)),
    ].filter(Boolean);
  }

  showValues(answer) {
    if (answer.gone) {
      this.values.replaceChildren(h("p", { class: "faint" }, "The values of this iteration are no longer kept."));
      return;
    }
    const part = (title, summary) =>
      summary
        ? [
            h("h4", {}, title),
            h("p", { class: "figures" }, summary.text),
            summary.sampled ? h("p", { class: "faint" }, "Of a sample of its values.") : null,
            summary.heat ? heatMap(summary.heat, title, { most: 310 }) : null,
            summary.histogram ? histogram(summary.histogram, title.toLowerCase()) : null,
          ]
        : [];
    this.values.replaceChildren(
      ...[
        ...part("Value", answer.value),
        ...part("Gradient", answer.gradient),
        answer.gradient ? null : h("p", { class: "faint" }, "No gradient here."),
      ].filter(Boolean),
    );
    if (answer.code?.length && !this.view.graph.code[answer.where])
      this.values.append(codeBlock(answer.code, answer.where));
  }
}
