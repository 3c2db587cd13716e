// Values as small pictures: heat maps with a scale, histograms, bars. Colours come from the style sheet, light or dark.

import { h, number, percent, plain, s } from "./dom.js";

const NUMBERS_UP_TO = 6; // columns: with more, a cell has no room for its number

// Cells as coloured squares: blue above zero, orange below, as strong as they are large.
export function heatMap(
  { values, row_labels, column_labels, row_step = 1, column_step = 1 },
  label,
  { most = 340 } = {},
) {
  const cells = values.map((row) => row.map(plain)),
    columns = Math.max(1, ...cells.map((row) => row.length));
  const largest = Math.max(1e-30, ...cells.flat().filter(Number.isFinite).map(Math.abs));
  const names = row_labels ?? [],
    left = names.length ? Math.min(90, 8 + 6.4 * Math.max(...names.map((name) => String(name).length))) : 0;
  const hasNumbers = columns <= NUMBERS_UP_TO,
    wide = hasNumbers ? 52 : Math.max(4, Math.min(24, Math.floor((most - left) / columns)));
  const high = hasNumbers ? 24 : Math.max(4, Math.min(24, wide, Math.floor(260 / cells.length)));
  const top = column_labels ? 16 : 0,
    parts = [];
  (column_labels ?? []).forEach((name, j) =>
    parts.push(s("text", { class: "tick middle", x: left + (j + 0.5) * wide, y: 11 }, name)),
  );
  cells.forEach((row, i) => {
    if (names[i] !== undefined)
      parts.push(s("text", { class: "tick end", x: left - 5, y: top + (i + 0.5) * high + 4 }, names[i]));
    row.forEach((value, j) => {
      const isFinite = Number.isFinite(value),
        strength = isFinite ? Math.abs(value) / largest : 1;
      const kind = !isFinite ? "broken" : value < 0 ? "below" : "above";
      parts.push(
        s("rect", {
          class: `cell ${kind}`,
          x: left + j * wide,
          y: top + i * high,
          width: wide - 1,
          height: high - 1,
          rx: 2,
          "fill-opacity": (0.06 + (hasNumbers ? 0.5 : 0.84) * strength).toFixed(3),
        }),
      );
      if (hasNumbers)
        parts.push(
          s(
            "text",
            { class: "cell-number", x: left + (j + 0.5) * wide - 0.5, y: top + (i + 0.5) * high + 3.5 },
            number(value, 3),
          ),
        );
    });
  });
  const readout = h("span", { class: "readout", "aria-hidden": "true" });
  const svg = s(
    "svg",
    {
      class: "heat",
      role: "img",
      width: left + columns * wide,
      height: top + cells.length * high,
      "aria-label": `${label}: ${cells.length} by ${columns} values, the largest is ${number(largest)} in size`,
    },
    parts,
  );
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(),
      j = Math.floor((event.clientX - box.left - left) / wide),
      i = Math.floor((event.clientY - box.top - top) / high);
    readout.textContent =
      cells[i]?.[j] === undefined ? "" : `[${i * row_step}, ${j * column_step}] = ${number(cells[i][j], 5)}`;
  });
  svg.addEventListener("pointerleave", () => {
    readout.textContent = "";
  });
  const every = [row_step > 1 && `one row in ${row_step}`, column_step > 1 && `one column in ${column_step}`].filter(
    Boolean,
  );
  const steps = every.join(", ");
  return h(
    "figure",
    { class: "picture" },
    h("div", { class: "scroll" }, svg),
    h(
      "figcaption",
      {},
      h(
        "span",
        { class: "scale" },
        `−${number(largest, 3)}`,
        s("svg", { class: "ramp", width: 60, height: 8, "aria-hidden": "true" }, ramp()),
        number(largest, 3),
      ),
      steps && ` ${steps} `,
      " ",
      readout,
    ),
  );
}

function ramp() {
  return Array.from({ length: 12 }, (_, i) => {
    const x = (i - 5.5) / 5.5;
    return s("rect", {
      class: `cell ${x < 0 ? "below" : "above"}`,
      x: i * 5,
      width: 5,
      height: 8,
      "fill-opacity": (0.06 + 0.84 * Math.abs(x)).toFixed(2),
    });
  });
}

// How often values fall between edges.
export function histogram({ edges, counts }, label) {
  const width = 260,
    height = 72,
    most = Math.max(1, ...counts),
    wide = width / counts.length,
    low = plain(edges[0]),
    high = plain(edges.at(-1));
  const bars = counts.map((count, i) =>
    s(
      "rect",
      {
        class: "bar-face",
        x: i * wide + 0.5,
        y: 4 + (height - 4) * (1 - count / most),
        width: Math.max(1, wide - 1),
        height: ((height - 4) * count) / most,
      },
      s("title", {}, `${number(plain(edges[i]))} to ${number(plain(edges[i + 1]))}: ${count}`),
    ),
  );
  return h(
    "figure",
    { class: "picture" },
    s(
      "svg",
      {
        class: "histogram",
        role: "img",
        width: "100%",
        height: height + 16,
        viewBox: `0 0 ${width} ${height + 16}`,
        "aria-label": `Histogram of ${label}, from ${number(low)} to ${number(high)}, ${most} in the fullest of ${counts.length} bins`,
      },
      bars,
      s("line", { class: "axis", x1: 0, x2: width, y1: height, y2: height }),
      s("text", { class: "tick", x: 0, y: height + 13 }, number(low, 3)),
      s("text", { class: "tick end", x: width, y: height + 13 }, number(high, 3)),
    ),
  );
}

// Named bars of shares from 0 to 1, such as the probabilities of classes; `best` chooses which of them stands out.
export function bars(items, label, best = Math.max) {
  const chosen = best(...items.map((item) => item.share));
  return h(
    "ul",
    { class: "bars", "aria-label": label },
    items.map((item) => {
      const face = h("span", { class: item.share === chosen ? "bar best" : "bar" });
      face.style.width = `${Math.max(0.5, 100 * item.share)}%`;
      return h(
        "li",
        {},
        h("span", { class: "bar-label" }, item.label),
        h("span", { class: "bar-room", "aria-hidden": "true" }, face),
        h("span", { class: "bar-text" }, item.text ?? percent(item.share)),
      );
    }),
  );
}

// The lines of code around one, which is marked.
export function codeBlock(lines, where) {
  if (!lines?.length) return null;
  const at = Number(String(where).split(":").pop());
  return h(
    "pre",
    { class: "code", tabindex: 0, "aria-label": `Code around ${where}` },
    lines.map(([n, words]) =>
      h("span", { class: n === at ? "here" : "there" }, `${String(n).padStart(4)}  ${words}\n`),
    ),
  );
}
