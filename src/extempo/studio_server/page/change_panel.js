// Changing the model while it trains: pause, learning rate, capture rate; layers inserted, removed, widened, frozen,
// replaced.
// Every request is answered by the training thread: done, or refused with the reason and everything as it was.

import { Chart } from "./charts.js";
import { h, number } from "./dom.js";

const MOST_ANSWERS = 30;
const NAMES = {
  insert: "Insert …",
  remove: "Remove",
  widen: "Widen …",
  freeze: "Freeze",
  unfreeze: "Unfreeze",
  replace: "Replace …",
};

export class ChangePanel {
  constructor(store, ask) {
    Object.assign(this, { store, ask, isEditing: false });
    this.makeControls();
    this.tree = h("tbody");
    this.summary = h("p", { class: "line" });
    this.answers = h("ol", {
      class: "answers",
      "aria-live": "polite",
      "aria-label": "Requests and what became of them",
    });
    this.none = h("p", { class: "faint" }, "Nothing was changed yet.");
    this.dialog = h("dialog", { "aria-labelledby": "dialog-title" });
    this.chart = new Chart({
      name: "loss_with_changes",
      title: "Loss, with the changes",
      series: () => (store.current ? [{ name: "loss", colour: 0, ...store.current.points((r) => r.loss) }] : []),
      marks: () => (store.current?.marks ?? []).map(({ step, text }) => ({ x: step, text })),
    });
    const model = h(
      "section",
      { class: "card", "aria-label": "The model" },
      h("h3", {}, "The model"),
      this.summary,
      h(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": "Layers" },
        h(
          "table",
          { class: "layers", role: "table", "aria-label": "Layers: name, kind, parameters, what can be done" },
          this.tree,
        ),
      ),
    );
    this.element = h(
      "div",
      { class: "change-panel" },
      this.controls,
      h(
        "div",
        { class: "two" },
        model,
        h(
          "div",
          {},
          this.chart.element,
          h("section", { class: "card" }, h("h3", {}, "What was asked"), this.none, this.answers),
        ),
      ),
      this.dialog,
    );
    for (const type of ["hello", "state", "program"]) store.on(type, () => this.showState());
    for (const type of ["hello", "structure"]) store.on(type, () => this.showModel());
    for (const type of ["hello", "history", "steps", "mark", "run"])
      store.on(type, () => {
        if (this.element.checkVisibility()) this.chart.update();
      });
  }

  update() {
    this.chart.update();
  }

  makeControls() {
    const button = (label, run, more) => h("button", { onclick: run, ...more }, label);
    this.pause = button(
      "Pause",
      () => this.request(this.isPaused ? "resume" : "pause", {}, this.isPaused ? "Go on" : "Pause"),
      { class: "primary" },
    );
    this.one = button("One step", () => this.request("step", {}, "One step"));
    this.rate = h("input", {
      id: "rate",
      type: "text",
      inputmode: "decimal",
      size: 9,
      autocomplete: "off",
      oninput: () => {
        this.isEditing = true;
      },
    });
    this.every = h(
      "select",
      {
        id: "every",
        onchange: () =>
          this.request(
            "every",
            { every: this.every.value ? Number(this.every.value) : null },
            `Capture ${this.every.selectedOptions[0].textContent}`,
          ),
      },
      h("option", { value: "" }, "as often as 10% of the time allows"),
      [1, 2, 5, 10, 100].map((n) =>
        h("option", { value: n }, n === 1 ? "every iteration, at any price" : `one iteration in ${n}`),
      ),
    );
    const rate = h(
      "form",
      {
        class: "row",
        onsubmit: (event) => {
          event.preventDefault();
          this.setRate();
        },
      },
      h("label", { for: "rate" }, "Learning rate"),
      this.rate,
      h("button", { type: "submit" }, "Set"),
    );
    this.pending = h("span", { class: "faint", role: "status" });
    this.controls = h(
      "section",
      { class: "card controls", "aria-label": "Training" },
      h("div", { class: "row" }, this.pause, this.one),
      rate,
      h("div", { class: "row" }, h("label", { for: "every" }, "Capture"), this.every),
      this.pending,
    );
  }

  get isPaused() {
    return this.store.state?.status === "paused";
  }

  showState() {
    const state = this.store.state;
    if (!state) return;
    this.pause.textContent = this.isPaused ? "Go on" : "Pause";
    if (!this.isEditing && document.activeElement !== this.rate)
      this.rate.value = state.lr?.length ? number(state.lr[0], 6) : "";
    const isOver =
      ["ended", "failed"].includes(state.status) || ["ended", "failed"].includes(this.store.program?.status);
    for (const element of [this.pause, this.one]) element.disabled = isOver;
    if (document.activeElement !== this.every)
      this.every.value =
        state.every_mode === "fixed" && [1, 2, 5, 10, 100].includes(state.every) ? String(state.every) : "";
    this.pending.textContent = state.pending?.length
      ? `waiting for the end of the step: ${state.pending.map((p) => p.text).join(", ")}`
      : "";
  }

  showModel() {
    const structure = this.store.structure;
    if (!structure) return;
    const focused = document.activeElement?.dataset?.act,
      total = structure.modules[0];
    const trainer = structure.optimizer ? `, trained by ${structure.optimizer}` : "";
    const size = total ? `: ${number(total.parameters)} parameters, ${number(total.trainable)} of them learn` : "";
    this.summary.textContent = structure.model + trainer + size;
    this.tree.replaceChildren(
      ...structure.modules.map((module) => {
        const name = module.path ? module.path.split(".").at(-1) : "(the model)",
          acts = module.can.map((act) =>
            h(
              "button",
              {
                class: "small",
                "aria-label": `${NAMES[act].replace(" …", "")} ${module.path || "the model"}`,
                data: { act: `${act} ${module.path}` },
                onclick: () => this.act(act, module),
              },
              NAMES[act],
            ),
          );
        // Roles are said: rows that are laid out as grids are no rows to a screen reader.
        const first = h("th", { scope: "row", role: "rowheader" }, name);
        const acting = h("td", { role: "cell", class: "acts" }, acts);
        for (const element of [first, acting]) element.style.paddingLeft = `${1.1 * module.depth}rem`;
        return h(
          "tr",
          { role: "row", class: module.frozen ? "frozen" : undefined, data: { path: module.path } },
          first,
          h(
            "td",
            { role: "cell" },
            `${module.kind}${module.text ? `(${module.text})` : ""}${module.frozen ? " ❄ frozen" : ""}`,
          ),
          h("td", { role: "cell", class: "number" }, `${number(module.parameters)} parameters`),
          acting,
        );
      }),
    );
    if (focused) this.tree.querySelector(`[data-act="${CSS.escape(focused)}"]`)?.focus();
  }

  // ---- asking

  request(type, content, words) {
    const line = h("li", { class: "waiting" }, h("b", {}, words), " ", h("span", {}, "waits for the end of the step"));
    this.none.hidden = true;
    this.answers.prepend(line);
    while (this.answers.children.length > MOST_ANSWERS) this.answers.lastChild.remove();
    return this.ask(type, content).then(
      (answer) => {
        line.className = "done";
        line.lastChild.textContent = answer.text ?? "done";
      },
      (problem) => {
        line.className = "refused";
        line.lastChild.textContent = problem.message;
      },
    );
  }

  setRate() {
    const lr = Number(this.rate.value);
    this.isEditing = false;
    if (!this.rate.value.trim() || !Number.isFinite(lr)) {
      this.rate.setAttribute("aria-invalid", "true");
      this.rate.focus();
      return;
    }
    this.rate.removeAttribute("aria-invalid");
    this.request("lr", { lr, group: null }, `Learning rate ${number(lr, 6)}`);
  }

  act(act, module) {
    const whose = module.path || "the model";
    if (act === "remove")
      this.confirm(`Remove ${whose}?`, "Remove", () =>
        this.request("remove", { path: module.path }, `Remove ${whose}`),
      );
    else if (act === "freeze" || act === "unfreeze") this.request(act, { path: module.path }, `${NAMES[act]} ${whose}`);
    else if (act === "widen") this.widen(module);
    else this.layerForm(act, module);
  }

  // ---- forms

  open(title, fields, label, run) {
    const close = () => this.dialog.close();
    this.dialog.replaceChildren(
      h(
        "form",
        {
          method: "dialog",
          onsubmit: (event) => {
            event.preventDefault();
            run(new FormData(event.target));
            close();
          },
        },
        h("h3", { id: "dialog-title" }, title),
        fields,
        h(
          "div",
          { class: "row end" },
          h("button", { type: "button", onclick: close }, "Cancel"),
          h("button", { type: "submit", class: "primary" }, label),
        ),
      ),
    );
    this.dialog.showModal();
  }
  confirm(title, label, run) {
    this.open(title, [h("p", {}, "Training goes on without it; the optimizer follows.")], label, run);
  }
  field(name, label, input) {
    return h("p", { class: "field" }, h("label", { for: `field-${name}` }, label), input);
  }
  numberInput(name, { min, max, value, step, required = true }) {
    return h("input", { id: `field-${name}`, name, type: "number", min, max, value, step, required });
  }

  widen(module) {
    this.open(
      `Widen ${module.path}`,
      [this.field("units", "Units in all, afterwards", this.numberInput("units", { min: 1, step: 1, value: "" }))],
      "Widen",
      (data) => {
        const units = Number(data.get("units"));
        this.request("widen", { path: module.path, units }, `Widen ${module.path} to ${units}`);
      },
    );
  }

  layerForm(act, module) {
    const layers = this.store.hello.layers,
      own = h("div");
    const kind = h(
      "select",
      { id: "field-kind", name: "kind", onchange: () => show() },
      layers.map((layer) => h("option", {}, layer.kind)),
    );
    const show = () => {
      const { fields } = layers.find((layer) => layer.kind === kind.value);
      own.replaceChildren(
        ...fields.map((f) =>
          this.field(
            f.name,
            f.name.replaceAll("_", " "),
            f.type === "bool"
              ? h("input", { id: `field-${f.name}`, name: f.name, type: "checkbox", checked: f.default === true })
              : this.numberInput(f.name, {
                  min: f.min,
                  max: f.max,
                  value: f.default,
                  step: f.type === "int" ? 1 : "any",
                  required: f.default === null || f.default === undefined,
                }),
          ),
        ),
      );
    };
    const isInsert = act === "insert",
      most = module.length ?? 0;
    show();
    const fields = [this.field("kind", "Layer", kind), own];
    if (isInsert)
      fields.push(
        this.field(
          "position",
          `Position, 0 to ${most}`,
          this.numberInput("position", { min: 0, max: most, value: most, step: 1 }),
        ),
        h(
          "p",
          { class: "field check" },
          h(
            "label",
            {},
            h("input", { type: "checkbox", name: "identity", checked: true }),
            " Start as the identity, where the layer can",
          ),
        ),
      );
    this.open(
      isInsert ? `Insert into ${module.path || "the model"}` : `Replace ${module.path}`,
      fields,
      isInsert ? "Insert" : "Replace",
      (data) => {
        const layer = { kind: kind.value };
        for (const f of layers.find((found) => found.kind === kind.value).fields) {
          if (f.type === "bool") layer[f.name] = data.has(f.name);
          else if (data.get(f.name) !== "") layer[f.name] = Number(data.get(f.name));
        }
        if (isInsert)
          this.request(
            "insert",
            { container: module.path, position: Number(data.get("position")), layer, identity: data.has("identity") },
            `Insert ${layer.kind} into ${module.path || "the model"}`,
          );
        else this.request("replace", { path: module.path, layer }, `Replace ${module.path} by ${layer.kind}`);
      },
    );
  }
}
