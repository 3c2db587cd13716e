// The course: text, code that runs here and now, and questions that want an answer before the run decides.

import { h } from "./dom.js";

export class LearnPanel {
  constructor(store, ask, fetchJson) {
    Object.assign(this, { ask, fetchJson });
    this.list = h("nav", { class: "lessons", "aria-label": "Lessons" });
    this.lesson = h("article", { class: "card lesson", tabindex: -1, "aria-label": "Lesson" });
    this.empty = h("p", { class: "empty-panel" }, "Looking for lessons …");
    this.body = h("div", { class: "learn-body", hidden: true }, this.list, this.lesson);
    this.element = h("div", { class: "learn-panel" }, this.empty, this.body);
    store.on("hello", () => {
      this.isLoaded = false;
      if (this.element.checkVisibility()) this.update();
    });
  }

  update() {
    if (this.isLoaded) return;
    this.isLoaded = true;
    this.fetchJson("api/lessons").then(
      (answer) => this.showList(answer.available ? answer.lessons : [], answer.why),
      (problem) => {
        this.isLoaded = false;
        this.empty.textContent = problem.message;
      },
    );
  }

  showList(lessons, why) {
    this.body.hidden = !lessons.length;
    this.empty.hidden = lessons.length > 0;
    this.empty.textContent = why ?? "There are no lessons here.";
    const parts = Map.groupBy(lessons, (lesson) => lesson.part);
    this.list.replaceChildren(
      ...[...parts].flatMap(([part, inside]) => [
        h("h4", {}, part),
        h(
          "ol",
          { start: inside[0].number },
          inside.map((lesson) =>
            h(
              "li",
              {},
              h(
                "button",
                { class: "link", data: { lesson: lesson.number }, onclick: () => this.show(lesson) },
                lesson.title,
              ),
            ),
          ),
        ),
      ]),
    );
    if (lessons.length && !this.lesson.children.length) this.show(lessons[0], false);
    this.markCurrent();
  }

  show(lesson, takesFocus = true) {
    this.number = lesson.number;
    this.markCurrent();
    this.score = { right: 0, answered: 0, questions: lesson.steps.filter((step) => step.kind === "question").length };
    this.said = h("p", { class: "score", role: "status" });
    this.lesson.replaceChildren(
      h("h2", {}, `${lesson.number}. ${lesson.title}`),
      ...lesson.steps.map((step, i) => this.step(step, i)),
      this.said,
    );
    this.lesson.scrollTop = 0;
    if (takesFocus) this.lesson.focus();
  }

  markCurrent() {
    for (const button of this.list.querySelectorAll("button")) {
      if (button.dataset.lesson === String(this.number)) button.setAttribute("aria-current", "page");
      else button.removeAttribute("aria-current");
    }
  }

  step(step, i) {
    if (step.kind === "text") return h("div", {}, step.text.split(/\n{2,}/).map(paragraph));
    const code = step.code ? h("pre", { class: "code", tabindex: 0, "aria-label": "Code" }, step.code) : null,
      output = h("div", { class: "ran", "aria-live": "polite" });
    if (step.kind === "question") return h("div", {}, code, this.question(step, i, output), output);
    const run = h("button", { onclick: () => this.run(i, null, output, run) }, "Run");
    return h("div", {}, code, run, output);
  }

  question(step, i, output) {
    const choices = step.choices.map((choice, k) =>
      h(
        "label",
        { class: "choice" },
        h("input", { type: "radio", name: `question-${i}`, value: k, required: true }),
        " ",
        inline(choice.text),
      ),
    );
    const answer = h("button", { type: "submit", class: "primary" }, "Run it and see");
    return h(
      "form",
      {
        class: "question",
        onsubmit: (event) => {
          event.preventDefault();
          this.run(i, Number(new FormData(event.target).get(`question-${i}`)), output, answer, step, event.target);
        },
      },
      h("fieldset", {}, h("legend", {}, inline(step.text)), choices),
      answer,
    );
  }

  run(step, choice, output, button, question, form) {
    button.disabled = true;
    output.replaceChildren(h("p", { class: "faint" }, "Running …"));
    this.ask("learn", { lesson: this.number, step, choice }).then(
      ({ outcome, verdict }) => {
        output.replaceChildren(
          ...shown(verdict?.outcome ?? outcome),
          ...(verdict ? this.decided(verdict, question, form) : []),
        );
        button.disabled = Boolean(verdict);
      },
      (problem) => {
        button.disabled = false;
        output.replaceChildren(
          h("p", { class: "bad" }, problem.message),
          h("p", { class: "faint" }, "In the terminal: ", h("code", {}, `extempo learn ${this.number}`)),
        );
      },
    );
  }

  decided(verdict, question, form) {
    for (const input of form.elements) input.disabled = true;
    this.score.answered++;
    if (verdict.is_right) this.score.right++;
    this.said.textContent = `${this.score.right} right of ${this.score.answered} answered, ${this.score.questions} in all`;
    if (verdict.right === null) return [h("p", {}, "The run cannot tell.")];
    const reasons = verdict.whys.map((why, k) =>
      h(
        "li",
        { class: k === verdict.right ? "good" : k === verdict.chosen ? "bad" : "faint" },
        h("b", {}, inline(question.choices[k].text)),
        " ",
        inline(why),
      ),
    );
    return [
      h("p", { class: verdict.is_right ? "verdict good" : "verdict bad" }, verdict.is_right ? "Yes." : "No."),
      h("p", { class: "faint" }, "The run decided: ", h("code", {}, verdict.decided_by), " is true."),
      h("ul", { class: "reasons" }, reasons),
    ];
  }
}

// What code printed, and its pictures; those are images, so that nothing in them can act.
function shown({ output, error, left_out: leftOut }) {
  const parts = output.map((part) =>
    part.kind === "picture"
      ? h("img", {
          class: "lesson-picture",
          alt: part.text,
          onload: (event) => URL.revokeObjectURL(event.target.src),
          src: URL.createObjectURL(new Blob([part.svg], { type: "image/svg+xml" })),
        })
      : h("pre", { class: "output", tabindex: 0, "aria-label": "Output" }, part.text),
  );
  if (error) parts.push(h("pre", { class: "output bad", tabindex: 0, "aria-label": "Error" }, error));
  if (leftOut) parts.push(h("p", { class: "faint" }, leftOut));
  return parts;
}

// Markdown as far as lessons use it: lists and paragraphs, and inside of them code, bold and italics.
function paragraph(text) {
  if (/^[-*] /.test(text))
    return h(
      "ul",
      {},
      text.split(/\n(?=[-*] )/).map((item) => h("li", {}, inline(item.slice(2)))),
    );
  if (text.startsWith("|")) return h("pre", {}, text);
  return h("p", {}, inline(text));
}

function inline(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*\s][^*]*\*)/).map((part) => {
    if (part.length > 2 && part.startsWith("`")) return h("code", {}, part.slice(1, -1));
    if (part.length > 4 && part.startsWith("**")) return h("b", {}, part.slice(2, -2));
    return part.length > 2 && part.startsWith("*") && part.endsWith("*") ? h("i", {}, part.slice(1, -1)) : part;
  });
}
