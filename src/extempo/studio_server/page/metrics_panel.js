// How good the model is: confusion matrix, precision, recall and F1; a threshold moves all of them and the verdict.

import { announce, drawnLater, h, number, percent, plain, table } from "./dom.js";

const ASK_EVERY = 100; // milliseconds, while the slider moves

export class MetricsPanel {
  constructor(store, ask) {
    Object.assign(this, { store, ask, isAsking: false });
    this.slider = h("input", {
      id: "threshold",
      type: "range",
      min: 0,
      max: 1,
      step: 0.01,
      value: 0.5,
      oninput: () => this.move(),
    });
    this.shownThreshold = h("output", { for: "threshold" });
    this.positive = h("select", { id: "positive", onchange: () => this.want() });
    this.refresh = h("button", { onclick: () => this.request({ refresh: true }) }, "Evaluate again");
    this.sliderRow = h(
      "div",
      { class: "row grow" },
      h("label", { for: "threshold" }, "Threshold"),
      this.slider,
      this.shownThreshold,
    );
    this.controls = h(
      "section",
      { class: "card controls", "aria-label": "What counts as a hit" },
      h("div", { class: "row" }, h("label", { for: "positive" }, "Class"), this.positive),
      this.sliderRow,
      this.refresh,
    );
    this.said = h("p", { class: "line" });
    this.verdict = h("section", { class: "card verdict-card", "aria-live": "polite" });
    this.matrix = h("section", { class: "card", "aria-label": "Confusion matrix" });
    this.figures = h("dl", { class: "figures-row" });
    this.findings = h("ul", { class: "findings" });
    this.empty = h(
      "p",
      { class: "empty-panel" },
      "No evaluation yet. Metrics appear when the program has scores and targets of classes.",
    );
    this.body = h(
      "div",
      { hidden: true },
      this.controls,
      this.said,
      this.figures,
      h("div", { class: "two" }, this.matrix, h("div", {}, this.verdict, this.findings)),
    );
    this.element = h("div", { class: "metrics-panel" }, this.empty, this.body);
    this.later = drawnLater(() => this.request({}), ASK_EVERY);
    store.on("metrics", () => {
      if (this.element.checkVisibility()) this.update();
    });
    store.on("hello", () => {
      this.wanted = null;
      this.askedAt = null;
      this.body.hidden = true;
      this.empty.hidden = false;
    });
  }

  get chosenClass() {
    return this.positive.value === "" ? null : Number(this.positive.value);
  }

  move() {
    this.shownThreshold.textContent = Number(this.slider.value).toFixed(2);
    this.want();
  }

  // From now on this is looked at, whatever a new evaluation begins with.
  want() {
    this.wanted = { threshold: Number(this.slider.value), positive: this.chosenClass };
    this.later();
  }

  isOther(m) {
    return (
      this.wanted &&
      m.available &&
      (m.positive !== this.wanted.positive || (m.positive !== null && m.threshold !== this.wanted.threshold))
    );
  }

  request({ refresh = false }) {
    if (this.isAsking && !refresh) {
      this.later();
      return;
    }
    this.isAsking = true;
    const { threshold, positive } = this.wanted ?? { threshold: Number(this.slider.value), positive: this.chosenClass };
    this.ask("metrics", { threshold, positive, refresh })
      .catch((problem) => announce(problem.message, true))
      .finally(() => {
        this.isAsking = false;
      });
  }

  update() {
    const m = this.store.metrics;
    if (!m) return;
    if (this.isOther(m) && this.askedAt !== m.step) {
      this.askedAt = m.step;
      this.later();
      return;
    }
    this.empty.hidden = m.available;
    this.body.hidden = !m.available;
    if (!m.available) {
      this.empty.textContent = m.why ?? "No metrics.";
      return;
    }
    const options = (m.kind === "binary" ? [] : [h("option", { value: "" }, "all classes, by the best score")]).concat(
      m.all_classes?.map((name, i) => h("option", { value: i }, `${name} or not`)) ??
        m.classes.map((name, i) => h("option", { value: i }, `${name} or not`)),
    );
    if (this.positive.options.length !== options.length) this.positive.replaceChildren(...options);
    if (document.activeElement !== this.positive)
      this.positive.value = m.positive === null || m.positive === undefined ? "" : String(m.positive);
    this.sliderRow.hidden = m.positive === null || m.positive === undefined;
    if (document.activeElement !== this.slider) this.slider.value = m.threshold;
    this.shownThreshold.textContent = Number(this.slider.value).toFixed(2);
    this.said.textContent = `${number(m.n)} samples, at step ${number(m.step)}`;
    const main = [
      ["Accuracy", m.accuracy],
      ["Precision", m.precision],
      ["Recall", m.recall],
      ["F1", m.f1],
    ].map(([name, value]) => [name, percent(plain(value))]);
    const named = new Set(["accuracy", "precision", "recall", "f1"]),
      more = (m.figures ?? [])
        .filter((f) => !named.has(f.name.toLowerCase()))
        .map((f) => [
          f.name.replaceAll("_", " "),
          f.text ||
            (typeof plain(f.value) === "number" && Math.abs(plain(f.value)) <= 1
              ? percent(plain(f.value))
              : number(plain(f.value))),
        ]);
    this.figures.replaceChildren(
      ...[...main, ...more].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
    );
    this.showMatrix(m);
    this.verdict.classList.toggle("good", m.ok === true);
    this.verdict.classList.toggle("bad", m.ok === false);
    this.verdict.replaceChildren(
      h("h3", {}, "Verdict"),
      h("p", { class: "verdict" }, m.report?.[0] ?? m.verdict),
      ...(m.report ?? []).slice(1).map((line) => h("p", {}, line)),
    );
    this.findings.replaceChildren(...(m.findings ?? []).map((line) => h("li", {}, line)));
  }

  // Rows are what it is, columns what the model says; the stronger a cell, the larger its share of the row.
  showMatrix({ confusion, classes, by_class: byClass }) {
    const rows = confusion.map((row, i) => {
      const sum = row.reduce((a, b) => a + b, 0) || 1;
      return h(
        "tr",
        {},
        h("th", { scope: "row" }, classes[i]),
        row.map((count, j) => {
          const cell = h(
            "td",
            { class: i === j ? "hit" : "miss" },
            number(count),
            h("small", {}, percent(count / sum)),
          );
          cell.style.setProperty("--share", (count / sum).toFixed(3));
          return cell;
        }),
      );
    });
    this.matrix.replaceChildren(
      h("h3", {}, "Confusion matrix"),
      h("p", { class: "line" }, "Rows: what it is. Columns: what the model says."),
      h(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": "Confusion matrix" },
        h(
          "table",
          { class: "confusion" },
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              h("td"),
              classes.map((name) => h("th", { scope: "col" }, name)),
            ),
          ),
          h("tbody", {}, rows),
        ),
      ),
      byClass?.length
        ? table(
            ["class", "samples", "precision", "recall", "F1"],
            byClass.map((c) => [
              c.name,
              number(c.n),
              percent(plain(c.precision)),
              percent(plain(c.recall)),
              percent(plain(c.f1)),
            ]),
            { label: "Precision, recall and F1 of each class" },
          )
        : "",
    );
  }
}
