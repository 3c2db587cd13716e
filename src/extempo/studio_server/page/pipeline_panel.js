// From raw data to one prediction: stages with their shapes and numbers, and a sequence of the learner's own.

import { announce, h, s, table } from "./dom.js";
import { GraphView } from "./graph_view.js";
import { bars, heatMap } from "./pictures.js";

export class PipelinePanel {
  constructor(store, ask) {
    Object.assign(this, { store, ask });
    this.input = h("input", { type: "text", id: "sequence", autocomplete: "off", spellcheck: "false" });
    this.hint = h("p", { class: "faint", id: "sequence-hint" });
    this.input.setAttribute("aria-describedby", "sequence-hint");
    this.send = h("button", { class: "primary", type: "submit" }, "Predict");
    this.form = h(
      "form",
      {
        class: "row",
        onsubmit: (event) => {
          event.preventDefault();
          this.predict();
        },
      },
      h("label", { for: "sequence" }, "Your sequence"),
      this.input,
      this.send,
    );
    this.answer = h("div", { class: "answer", "aria-live": "polite" });
    this.graph = new GraphView({ label: "The graph of this prediction" });
    this.graphBox = h(
      "div",
      { class: "prediction-graph", hidden: true },
      h("h4", {}, "The graph that formed for it"),
      this.graph.element,
    );
    this.own = h(
      "section",
      { class: "card own", "aria-labelledby": "own-title", hidden: true },
      h("h3", { id: "own-title" }, "Try a sequence of any length"),
      this.form,
      this.hint,
      this.answer,
      this.graphBox,
    );
    this.stages = h("ol", { class: "stages" });
    this.empty = h(
      "p",
      { class: "empty-panel" },
      "The stages appear here when the program has looked at its first batch.",
    );
    this.said = h("p", { class: "line" });
    this.again = h(
      "button",
      { onclick: () => this.ask("pipeline").catch((problem) => announce(problem.message, true)) },
      "Show the newest batch",
    );
    this.element = h(
      "div",
      { class: "pipeline-panel" },
      h("div", { class: "row" }, this.again, this.said),
      this.empty,
      this.own,
      this.stages,
    );
    store.on("pipeline", () => {
      if (this.element.checkVisibility()) this.update();
    });
  }

  update() {
    if (!this.store.pipeline) return;
    const { stages, asks, step, why } = this.store.pipeline;
    this.empty.hidden = stages.length > 0;
    this.said.textContent = step === undefined || step === null ? "" : `Numbers of step ${step}`;
    if (why) this.hint.textContent = why;
    this.own.hidden = !asks;
    if (asks) {
      this.hint.textContent = asks.text;
      if (!this.input.value) this.input.value = asks.example ?? "";
    }
    this.stages.replaceChildren(...stages.map((stage) => h("li", { class: "card stage-card" }, stageParts(stage))));
  }

  predict() {
    this.send.disabled = true;
    this.answer.replaceChildren(h("p", { class: "faint" }, "Asked; the program answers at the end of its next step …"));
    this.ask("predict", { sequence: this.input.value })
      .then(
        (answer) => {
          const stages = (answer.stages ?? []).filter((stage) => stage.heat || stage.tables?.length);
          this.answer.replaceChildren(
            h("p", { class: "verdict" }, answer.text),
            answer.bars ? bars(answer.bars, "Probability of each class") : "",
            stages.length
              ? h(
                  "details",
                  {},
                  h("summary", {}, "Its way through the model"),
                  stages.map((stage) => h("div", {}, stageParts(stage))),
                )
              : "",
          );
          this.graphBox.hidden = !answer.capture;
          if (answer.capture) {
            this.graph.show(answer.capture);
            if (!matchMedia("(prefers-reduced-motion: reduce)").matches) this.graph.play();
          }
        },
        (problem) => {
          this.answer.replaceChildren(h("p", { class: "bad" }, problem.message));
        },
      )
      .finally(() => {
        this.send.disabled = false;
      });
  }
}

// A stage: its title, what goes in and comes out, and whatever it has to show.
export function stageParts(stage) {
  const shapes =
    stage.in || stage.out ? h("p", { class: "shapes" }, [stage.in, stage.out].filter(Boolean).join(" → ")) : null;
  return [
    h("h3", {}, stage.title),
    shapes,
    (stage.text ?? []).map((words) => h("p", {}, words)),
    stage.padded ? besideEachOther(stage.padded, stage.ragged) : null,
    (stage.tables ?? []).map((t) =>
      table(t.columns, t.rows, { caption: t.title || undefined, label: t.title || stage.title }),
    ),
    [stage.heat ?? []]
      .flat()
      .map((heat) =>
        h(
          "div",
          {},
          heat.label ? h("p", { class: "faint" }, heat.label) : null,
          heatMap(heat, heat.label ?? stage.title, { most: 560 }),
        ),
      ),
    stage.bars ? bars(stage.bars, stage.title) : null,
  ];
}

// The same batch twice: as a rectangle with empty cells, and as rows that are as long as they are.
function besideEachOther(padded, ragged) {
  const size = 22,
    width = Math.max(...padded.rows.map((row) => row.length)) * size;
  const cells = (rows, label) =>
    s(
      "svg",
      {
        class: "cells",
        role: "img",
        width,
        height: rows.length * size,
        viewBox: `0 0 ${width} ${rows.length * size}`,
        "aria-label": label,
      },
      rows.flatMap((row, i) =>
        row.flatMap((value, j) => [
          s("rect", {
            class: value === null ? "cell wasted" : "cell used",
            x: j * size + 1,
            y: i * size + 1,
            width: size - 2,
            height: size - 2,
            rx: 3,
          }),
          s(
            "text",
            {
              class: value === null ? "cell-number faint" : "cell-number",
              x: (j + 0.5) * size,
              y: (i + 0.5) * size + 4,
            },
            value === null ? "·" : value,
          ),
        ]),
      ),
    );
  const part = (title, words, picture) =>
    h(
      "figure",
      { class: "picture" },
      h("figcaption", {}, h("b", {}, title), ` ${words}`),
      h("div", { class: "scroll" }, picture),
    );
  const used = padded.cells - padded.wasted;
  return h(
    "div",
    { class: "beside" },
    part(
      "Padded",
      `${padded.cells} cells, ${padded.wasted} wasted (${Math.round((100 * padded.wasted) / padded.cells)}%)`,
      cells(padded.rows, `Padded: ${padded.cells} cells, ${padded.wasted} wasted`),
    ),
    part("Ragged", `${used} cells, none wasted`, cells(ragged.rows, `Ragged: ${used} cells, none wasted`)),
  );
}
