// Buttons and a slider over time: what ran, op by op, then the gradients in the order in which they were computed.

import { clamp, h, s } from "./dom.js";

const SECONDS = 6; // that playing takes, unless there is little to play
const SHORTEST_PAUSE = 40,
  LONGEST_PAUSE = 500; // milliseconds between two steps
const ICONS = {
  first: "M3 3h2v10H3zM13 3v10L6 8z",
  back: "M11 3v10L4 8z",
  play: "M4 2.5v11l9-5.5z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  on: "M4 3v10l6-5zM11 3h2v10h-2z",
  last: "M11 3h2v10h-2zM3 3v10l7-5z",
};
const icon = (name) =>
  s(
    "svg",
    { class: "icon", width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true" },
    s("path", { d: ICONS[name] }),
  );

export class Player {
  // ontime(time) shows a moment and gives it in words; onstep() comes after each step, ontouch() when the user took over.
  constructor({ ontime, onstep, ontouch }) {
    Object.assign(this, { ontime, onstep, ontouch, time: 0, end: 0, timer: null });
    const button = (name, title, run) =>
      h(
        "button",
        {
          "aria-label": title,
          title,
          onclick: () => {
            ontouch();
            run();
          },
        },
        icon(name),
      );
    this.playButton = button("play", "Play", () => {
      if (this.timer) this.pause();
      else this.play();
    });
    this.slider = h("input", {
      type: "range",
      min: 0,
      max: 0,
      value: 0,
      step: 1,
      "aria-label": "Time: ops that ran, then gradients",
      oninput: () => {
        ontouch();
        this.go(Number(this.slider.value));
      },
    });
    this.moment = h("output", { class: "moment" });
    this.element = h(
      "div",
      { class: "player", role: "group", "aria-label": "Play the order in which the graph formed" },
      button("first", "To the beginning", () => this.go(0)),
      button("back", "One step back", () => this.step(-1)),
      this.playButton,
      button("on", "One step on", () => this.step(1)),
      button("last", "To the end", () => this.go(this.end)),
      this.slider,
      this.moment,
    );
  }

  // Another graph: it lasts until `end`, and is shown whole.
  load(end) {
    this.pause();
    this.time = this.end = this.slider.max = end;
  }

  set(time) {
    this.time = clamp(time, 0, this.end);
    this.slider.value = this.time;
    const words = this.ontime(this.time);
    this.moment.textContent = words;
    this.slider.setAttribute("aria-valuetext", words);
  }

  go(time) {
    this.pause();
    this.set(time);
  }
  step(by) {
    this.go(this.time + by);
    this.onstep();
  }

  play(onend = () => {}) {
    this.pause();
    if (this.time >= this.end) this.set(0);
    const pause = clamp((1000 * SECONDS) / Math.max(this.end, 1), SHORTEST_PAUSE, LONGEST_PAUSE),
      stride = Math.max(1, Math.round((this.end * pause) / (1000 * SECONDS)));
    this.timer = setInterval(() => {
      this.set(this.time + stride);
      this.onstep();
      if (this.time >= this.end) {
        this.pause();
        onend();
      }
    }, pause);
    this.showButton();
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.showButton();
  }

  showButton() {
    const title = this.timer ? "Pause" : "Play";
    this.playButton.replaceChildren(icon(title.toLowerCase()));
    this.playButton.setAttribute("aria-label", title);
    this.playButton.title = title;
  }
}
