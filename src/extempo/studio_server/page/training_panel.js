// Training in figures: curves over steps and epochs, time and memory by part, gradients by layer, two runs side by side.

import { Chart, Range } from "./charts.js";
import { bytes, drawnLater, h, number, percent, plain, seconds, table } from "./dom.js";

const REDRAW = 250; // milliseconds between drawings, however fast steps arrive
const MOST_EPOCHS = 30; // in the table: the newest first
const MEMORY_SUMS = new Set(["total", "peak"]);

const label = (name) => name.replaceAll("_", " ");
const isLoss = (name) => name.includes("loss");
const OF_THE_RUN = new Set(["seconds", "samples_per_second", "peak_bytes", "lr"]); // no measure of how good the model is

export class TrainingPanel {
  constructor(store) {
    this.store = store;
    this.figures = h("dl", { class: "figures-row" });
    this.other = h("select", { id: "other-run", onchange: () => this.update() });
    this.thinned = h("span", { class: "faint" });
    this.makeCharts();
    this.beside = h("section", { class: "card beside-runs", hidden: true });
    this.epochs = h("section", { class: "card epochs", "aria-label": "Epochs" });
    this.element = h(
      "div",
      { class: "training-panel" },
      this.figures,
      h(
        "div",
        { class: "row" },
        h("label", { for: "other-run" }, "Beside it"),
        this.other,
        this.thinned,
        h("span", { class: "faint grow" }, "Drag over a chart to zoom, double-click to see all."),
      ),
      this.beside,
      h(
        "div",
        { class: "charts" },
        this.charts.map((chart) => chart.element),
      ),
      this.epochs,
    );
    this.update = drawnLater(() => this.draw(), REDRAW);
    for (const type of ["hello", "history", "steps", "epoch", "mark", "run", "state"])
      store.on(type, () => this.update());
  }

  makeCharts() {
    const range = new Range(),
      marks = () => (this.run?.marks ?? []).map(({ step, text }) => ({ x: step, text }));
    const extent = () => {
      const ends = [this.run, this.second].filter((run) => run?.records.length);
      return ends.length
        ? [Math.min(...ends.map((run) => run.records[0].step)), Math.max(...ends.map((run) => run.records.at(-1).step))]
        : null;
    };
    const steps = { range, marks, extent };
    const epochs = (name, title, choose, format) =>
      new Chart({
        name,
        title,
        xLabel: "epoch",
        format,
        series: () => this.bothRuns((run) => this.epochSeries(run, choose)),
      });
    this.loss = new Chart({
      name: "loss",
      title: "Loss",
      ...steps,
      series: () => this.bothRuns((run) => [{ name: "loss", colour: 0, ...run.points((r) => r.loss) }]),
    });
    this.metrics = new Chart({
      name: "metrics",
      title: "Metrics",
      ...steps,
      series: () =>
        this.bothRuns((run) =>
          run
            .names("metrics")
            .map((name, i) => ({ name: label(name), colour: i + 1, ...run.points((r) => r.metrics?.[name]) })),
        ),
    });
    this.epochLoss = epochs("loss_by_epoch", "Loss by epoch", isLoss, number);
    this.epochMetrics = epochs(
      "metrics_by_epoch",
      "Metrics by epoch",
      (name) => !isLoss(name) && !OF_THE_RUN.has(name),
      number,
    );
    this.time = new Chart({
      name: "iteration_time",
      title: "Time of an iteration by part",
      ...steps,
      kind: "stack",
      format: seconds,
      series: () => [
        ...this.parts("phases"),
        ...this.otherTotal((r) => r.phases && Object.values(r.phases).reduce((a, b) => a + b, 0)),
      ],
    });
    this.memory = new Chart({
      name: "memory",
      title: "Memory by part",
      ...steps,
      kind: "stack",
      format: bytes,
      series: () => [...this.parts("memory", MEMORY_SUMS), ...this.otherTotal((r) => r.memory?.total)],
    });
    this.gradients = new Chart({
      name: "gradients",
      title: "Gradient norm by layer",
      ...steps,
      log: true,
      series: () =>
        this.bothRuns((run) =>
          run.names("gradients").map((name, i) => ({
            name: name || "the model itself",
            colour: i % 8,
            ...run.points((r) => r.gradients?.[name]),
          })),
        ),
    });
    this.rate = new Chart({
      name: "learning_rate",
      title: "Learning rate",
      ...steps,
      series: () =>
        this.bothRuns((run) =>
          Array.from({ length: Math.min(8, run.records.at(-1)?.lr?.length ?? 0) }, (_, i) => ({
            name: i ? `group ${i}` : "lr",
            colour: i,
            ...run.points((r) => r.lr?.[i]),
          })),
        ),
    });
    this.charts = [
      this.loss,
      this.metrics,
      this.epochLoss,
      this.epochMetrics,
      this.time,
      this.memory,
      this.gradients,
      this.rate,
    ];
  }

  get run() {
    return this.store.current;
  }
  get second() {
    return this.store.runs.get(Number(this.other.value));
  }

  // The lines of this run, and those of the other one dashed.
  bothRuns(read) {
    if (!this.run) return [];
    const second = this.second,
      own = read(this.run).map((line) => ({ ...line, name: second ? `${this.run.name}: ${line.name}` : line.name }));
    return second
      ? [...own, ...read(second).map((line) => ({ ...line, name: `${second.name}: ${line.name}`, dashed: true }))]
      : own;
  }

  parts(part, without = new Set()) {
    const run = this.run;
    return (run?.names(part) ?? [])
      .filter((name) => !without.has(name))
      .map((name, i) => ({ name, colour: i % 8, ...run.points((r) => (r[part] ? (r[part][name] ?? 0) : null)) }));
  }

  otherTotal(read) {
    return this.second
      ? [{ name: `${this.second.name}: all of it`, colour: 7, dashed: true, ...this.second.points(read) }]
      : [];
  }

  epochSeries(run, choose) {
    const names = new Set(run.epochs.flatMap(({ figures }) => Object.keys(figures).filter(choose)));
    return [...names].map((name, i) => {
      const has = run.epochs.filter(({ figures }) => typeof plain(figures[name]) === "number");
      return {
        name: label(name),
        colour: i,
        xs: has.map(({ epoch }) => epoch),
        ys: has.map(({ figures }) => plain(figures[name])),
      };
    });
  }

  draw() {
    if (!this.element.checkVisibility()) return;
    this.fillRuns();
    this.fillFigures();
    this.metrics.element.hidden = !this.run?.names("metrics").length;
    this.epochLoss.element.hidden = this.epochMetrics.element.hidden = !this.run?.epochs.length;
    if (this.run?.epochs.length)
      this.epochMetrics.element.hidden = !this.epochSeries(this.run, (name) => !isLoss(name) && !OF_THE_RUN.has(name))
        .length;
    for (const chart of this.charts) if (!chart.element.hidden) chart.draw();
    this.fillEpochs();
    this.fillBeside();
    this.thinned.textContent = this.run?.every > 1 ? `One step in ${this.run.every} is kept.` : "";
  }

  fillRuns() {
    const others = [...this.store.runs.values()].filter((run) => run !== this.run),
      now = this.other.value;
    if (this.other.options.length !== others.length + 1)
      this.other.replaceChildren(
        h("option", { value: "" }, others.length ? "no other run" : "no other run yet"),
        ...others.map((run) => h("option", { value: run.id }, `${run.name}${run.model ? `, ${run.model}` : ""}`)),
      );
    this.other.value = others.some((run) => String(run.id) === now) ? now : "";
    this.other.disabled = !others.length;
  }

  fillFigures() {
    const last = this.run?.records.at(-1),
      looked = this.run?.records.findLast((record) => record.memory),
      epoch = this.run?.epochs.at(-1)?.figures ?? {};
    const accuracy = Object.keys(epoch).find((name) => name.includes("accuracy"));
    const items = [
      ["Step", number(last?.step)],
      ["Epoch", number(last?.epoch)],
      ["Loss", number(plain(last?.loss))],
      accuracy && [label(accuracy), percent(plain(epoch[accuracy]))],
      ["Learning rate", number(last?.lr?.[0])],
      ["One iteration", seconds(last?.seconds)],
      ["Memory", bytes(looked?.memory.total)],
    ];
    this.figures.replaceChildren(
      ...items.filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
    );
  }

  fillEpochs() {
    const run = this.run,
      names = [...new Set(run?.epochs.flatMap(({ figures }) => Object.keys(figures)) ?? [])];
    if (!run?.epochs.length) {
      this.epochs.replaceChildren(h("h3", {}, "Epochs"), h("p", { class: "faint" }, "No epoch has ended yet."));
      return;
    }
    const show = (name, value) =>
      name === "seconds"
        ? seconds(value)
        : name.endsWith("bytes")
          ? bytes(value)
          : name.includes("accuracy")
            ? percent(plain(value))
            : number(plain(value));
    const head = ["epoch", ...names.map((name) => label(name).replace("peak bytes", "peak memory"))];
    const rows = run.epochs
      .slice(-MOST_EPOCHS)
      .reverse()
      .flatMap(({ epoch, figures, remark }) => [
        h(
          "tr",
          { class: remark ? "figures" : undefined },
          h("th", { scope: "row", class: "number" }, number(epoch)),
          names.map((name) => h("td", { class: "number" }, show(name, figures[name]))),
        ),
        remark ? h("tr", { class: "remark" }, h("td"), h("td", { colspan: names.length }, remark)) : null,
      ]);
    this.epochs.replaceChildren(
      h("h3", {}, "Epochs"),
      h(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": "Epochs with a remark each" },
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              head.map((name) => h("th", { scope: "col", class: "number" }, name)),
            ),
          ),
          h("tbody", {}, rows.filter(Boolean)),
        ),
      ),
    );
  }

  fillBeside() {
    const second = this.second;
    this.beside.hidden = !second;
    if (!second) return;
    const runs = [this.run, second],
      losses = (run) => run.points((r) => r.loss).ys.filter(Number.isFinite);
    const mean = (run) => {
      const all = run.points((r) => r.seconds).ys;
      return all.length ? all.reduce((a, b) => a + b, 0) / all.length : null;
    };
    const peak = (run) => run.points((r) => r.memory?.peak).ys.reduce((a, b) => Math.max(a, b), 0) || null;
    const rows = [
      ["steps", (run) => number(run.records.at(-1)?.step)],
      ["loss at the end", (run) => number(losses(run).at(-1))],
      ["least loss", (run) => number(losses(run).reduce((a, b) => Math.min(a, b), Infinity))],
      ["one iteration, on average", (run) => seconds(mean(run))],
      ["peak memory", (run) => bytes(peak(run))],
      ["changes", (run) => number(run.marks.length)],
    ];
    this.beside.replaceChildren(
      h("h3", {}, "Two runs beside each other"),
      table(
        ["", ...runs.map((run) => run.name)],
        rows.map(([name, read]) => [name, ...runs.map(read)]),
        { label: "Two runs beside each other" },
      ),
    );
  }
}
