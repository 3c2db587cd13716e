// What the page knows of the program. Bounded: of long runs every second record goes, of many runs the oldest.

import { plain } from "./dom.js";

const MOST_RECORDS = 4000,
  MOST_RUNS = 8,
  MOST_MARKS = 500,
  MOST_EPOCHS = 2000;

export class Run {
  constructor({ id, name, status, model }) {
    Object.assign(this, { id, name, status, model, records: [], epochs: [], marks: [], every: 1 });
  }

  add(records) {
    const last = this.records.at(-1)?.step ?? -1;
    for (const record of records) if (record.step > last) this.records.push(record);
    while (this.records.length > MOST_RECORDS) this.halve();
  }

  // Of two neighbours the one that was looked into stays; the newest stays always.
  halve() {
    const kept = [],
      records = this.records;
    for (let i = 0; i + 1 < records.length; i += 2)
      kept.push(!records[i].phases && records[i + 1].phases ? records[i + 1] : records[i]);
    if (kept.at(-1) !== records.at(-1)) kept.push(records.at(-1));
    this.records = kept;
    this.every *= 2;
  }

  // The points at which `read(record)` gives a number: { xs, ys }.
  points(read) {
    const xs = [],
      ys = [];
    for (const record of this.records) {
      const y = plain(read(record));
      if (typeof y === "number") {
        xs.push(record.step);
        ys.push(y);
      }
    }
    return { xs, ys };
  }

  // All names that stand in a part of the records, such as the layers of `gradients`, as they appeared.
  names(part) {
    const found = new Set();
    for (const record of this.records) if (record[part]) for (const name of Object.keys(record[part])) found.add(name);
    return [...found];
  }
}

export class Store {
  constructor() {
    this.listeners = new Map();
    this.runs = new Map();
    this.clear();
  }

  clear() {
    this.runs.clear();
    Object.assign(this, {
      hello: null,
      program: null,
      state: null,
      structure: null,
      capture: null,
      pipeline: null,
      metrics: null,
      error: null,
      run: null,
    });
  }

  on(type, listener) {
    if (!this.listeners.has(type)) this.listeners.set(type, []);
    this.listeners.get(type).push(listener);
  }

  tell(type, message) {
    for (const listener of this.listeners.get(type) ?? []) listener(message);
  }

  get current() {
    return this.runs.get(this.run);
  }

  runOf(id) {
    if (!this.runs.has(id)) this.addRun({ id, name: `run ${id}`, status: "running" });
    return this.runs.get(id);
  }

  addRun(description) {
    const known = this.runs.get(description.id);
    if (known) Object.assign(known, { name: description.name, status: description.status, model: description.model });
    else this.runs.set(description.id, new Run(description));
    while (this.runs.size > MOST_RUNS) this.runs.delete(this.runs.keys().next().value);
  }

  receive(message) {
    this[`take_${message.type}`]?.(message);
    this.tell(message.type, message);
  }

  take_hello(message) {
    this.clear();
    Object.assign(this, {
      hello: message,
      program: message.program,
      state: message.state,
      structure: message.structure,
      run: message.run,
    });
    for (const run of message.runs) this.addRun(run);
  }
  take_state(message) {
    this.state = message;
  }
  take_program(message) {
    this.program = message;
    if (message.status === "running") this.error = null;
  }
  take_run({ run }) {
    this.addRun(run);
    if (run.status === "running" || this.run === null) this.run = run.id;
  }
  take_history(message) {
    const run = this.runOf(message.run);
    Object.assign(run, {
      records: [],
      epochs: message.epochs.slice(-MOST_EPOCHS),
      marks: message.marks.slice(-MOST_MARKS),
      every: message.every,
    });
    run.add(message.records);
  }
  take_steps({ run, records }) {
    this.runOf(run).add(records);
  }
  take_epoch({ run, epoch }) {
    const { epochs } = this.runOf(run);
    epochs.push(epoch);
    if (epochs.length > MOST_EPOCHS) epochs.shift();
  }
  take_mark({ run, mark }) {
    const { marks } = this.runOf(run);
    marks.push(mark);
    if (marks.length > MOST_MARKS) marks.shift();
  }
  take_structure(message) {
    this.structure = message;
  }
  take_capture(message) {
    this.capture = message;
  }
  take_pipeline(message) {
    this.pipeline = message;
  }
  take_metrics(message) {
    this.metrics = message;
  }
  take_error(message) {
    this.error = message;
  }
}
