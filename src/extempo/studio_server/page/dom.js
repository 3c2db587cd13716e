// Small tools that every panel uses: elements without markup in strings, numbers as people read them, drawing at most
// once a frame.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else if (name === "data") for (const [key, item] of Object.entries(value)) element.dataset[key] = item;
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity))
    if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}

// h("p", { class: "faint" }, "words", child): an element of HTML; s(...) the same of SVG. `onclick: f` listens.
export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

export const byId = (id) => document.getElementById(id);

// What JSON cannot hold comes as a text: "nan", "inf", "-inf".
export const plain = (x) => (typeof x === "string" ? ({ nan: NaN, inf: Infinity, "-inf": -Infinity }[x] ?? x) : x);

// A number in at most five figures: 0.03125, 12.5, 1,234, 1.2e-7.
export function number(x, digits = 4) {
  if (x === null || x === undefined) return "–";
  if (typeof x !== "number") return String(x);
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  if (Number.isInteger(x) && Math.abs(x) < 1e9) return x.toLocaleString("en");
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-4) return x.toExponential(2).replace("e+", "e");
  return size >= 1000 ? Math.round(x).toLocaleString("en") : String(Number(x.toPrecision(digits)));
}

export function bytes(x) {
  if (x === null || x === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let place = 0,
    size = x;
  while (Math.abs(size) >= 1000 && place < units.length - 1) {
    size /= 1000;
    place++;
  }
  return `${place && Math.abs(size) < 100 ? size.toFixed(1) : Math.round(size)} ${units[place]}`;
}

export function seconds(x) {
  if (x === null || x === undefined) return "–";
  if (x >= 1) return `${number(x, 3)} s`;
  return x >= 1e-3 ? `${number(x * 1e3, 3)} ms` : `${number(x * 1e6, 3)} µs`;
}

export const percent = (x) => (x === null || x === undefined || Number.isNaN(x) ? "–" : `${(100 * x).toFixed(1)}%`);

// A table of rows of texts, numbers and elements. Numbers stand at the right.
export function table(columns, rows, { caption, rowHeads = true, label } = {}) {
  const isNumber = (value) =>
    typeof value === "number" ||
    (typeof value === "string" && /^([–-]|-?[\d.,]+(e-?\d+)?( ?(%|ms|s|[µu]s|[kKMG]?B))?)$/.test(value));
  const cell = (value, column) => {
    const shown = typeof value === "number" ? number(value) : value;
    const kind = isNumber(value) ? "number" : undefined;
    return column === 0 && rowHeads ? h("th", { scope: "row", class: kind }, shown) : h("td", { class: kind }, shown);
  };
  const body = rows.map((row) => h("tr", {}, row.map(cell)));
  const head = columns
    ? h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((name, i) =>
            h("th", { scope: "col", class: rows.length && isNumber(rows[0][i]) ? "number" : undefined }, name),
          ),
        ),
      )
    : null;
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": label ?? caption ?? "Table" },
    h("table", {}, caption && h("caption", {}, caption), head, h("tbody", {}, body)),
  );
}

// Runs `draw` at most once a frame, and at most every `pause` milliseconds, however often it is asked for.
export function drawnLater(draw, pause = 0) {
  let waiting = false,
    last = -Infinity;
  return () => {
    if (waiting) return;
    waiting = true;
    const run = () =>
      requestAnimationFrame(() => {
        waiting = false;
        last = performance.now();
        draw();
      });
    const rest = last + pause - performance.now();
    if (rest > 0) setTimeout(run, rest);
    else run();
  };
}

export const clamp = (x, low, high) => Math.min(high, Math.max(low, x));

// Round steps for an axis: about `most` of them between low and high.
export function ticks(low, high, most) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / Math.max(most, 1),
    size = 10 ** Math.floor(Math.log10(rough));
  const step = size * [1, 2, 2.5, 5, 10].find((k) => k * size >= rough);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++)
    found.push(Number((i * step).toPrecision(12)));
  return found;
}

// Says something to screen readers, and shows it for a while at the bottom of the page.
export function announce(words, isError = false) {
  const place = byId("toast");
  place.textContent = words;
  place.className = isError ? "toast shown bad" : "toast shown";
  clearTimeout(announce.timer);
  announce.timer = setTimeout(
    () => {
      place.className = "toast";
    },
    isError ? 9000 : 4000,
  );
}
