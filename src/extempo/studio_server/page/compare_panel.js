// Does it pay? Time, memory and flexibility of this model, dynamic, compiled, static and in PyTorch, and the verdict.

import { bytes, h, plain, seconds, table } from "./dom.js";
import { bars } from "./pictures.js";

export class ComparePanel {
  constructor(store, ask) {
    Object.assign(this, { store, ask });
    this.start = h("button", { class: "primary", onclick: () => this.measure() }, "Measure now");
    this.said = h("p", { class: "line", role: "status" }, "Training waits while it is measured, for some seconds.");
    this.result = h("div", { class: "result" });
    this.element = h(
      "div",
      { class: "compare-panel" },
      h(
        "section",
        { class: "card" },
        h("h3", {}, "Does a dynamic graph pay for this model?"),
        h(
          "p",
          {},
          "The same iteration, run as a graph that forms anew each time, compiled, fixed ahead, and in PyTorch where that is installed.",
        ),
        h("div", { class: "row" }, this.start, this.said),
      ),
      this.result,
    );
    store.on("compare", (message) => this.take(message)); // whichever page asked
  }

  measure() {
    this.say("Waits for the end of the step …", true);
    this.ask("compare").catch((problem) => this.say(problem.message, false, true));
  }

  take(message) {
    if (message.status === "running") this.say(message.text, true);
    else if (message.status === "failed") this.say(message.error, false, true);
    else {
      this.say("Measured.");
      this.show(message);
    }
  }

  say(words, isBusy = false, isBad = false) {
    this.start.disabled = isBusy;
    this.said.className = isBad ? "line bad" : "line";
    this.said.textContent = words;
  }

  show({ columns, rows, bars: modes = [], verdict, word, notes = [], text }) {
    const scale = (name) => Math.max(...modes.map((mode) => plain(mode[name]) || 0), 1e-12);
    const chart = (title, name, format) =>
      h("section", { class: "card" }, h("h3", {}, title), barsOf(modes, name, scale(name), title, format));
    const lines = [verdict ?? []].flat(),
      kinds = table(
        columns,
        rows.filter((row) => row.some((cell) => cell !== "")),
        { label: "Time, memory and flexibility" },
      );
    this.result.replaceChildren(
      h(
        "section",
        { class: `card verdict-card ${{ good: "good", bad: "bad" }[word] ?? ""}` },
        h("h3", {}, "Verdict"),
        lines.map((line) => h("p", { class: "verdict" }, line)),
        notes.map((note) => h("p", {}, note)),
      ),
      h("div", { class: "two" }, chart("Time of one iteration", "seconds", seconds), chart("Memory", "bytes", bytes)),
      h("section", { class: "card" }, h("h3", {}, "Beside each other"), kinds),
      h(
        "details",
        { class: "card" },
        h("summary", {}, "The whole report"),
        h("pre", { tabindex: 0, class: "report" }, text),
      ),
    );
  }
}

function barsOf(modes, name, most, title, format) {
  const known = modes.filter((mode) => typeof plain(mode[name]) === "number");
  return bars(
    known.map((mode) => ({ label: mode.name, share: plain(mode[name]) / most, text: format(plain(mode[name])) })),
    title,
    Math.min,
  );
}
