// A picture of the page as a file: SVG that stands alone, PNG, or its numbers as CSV.
// PNG is drawn on a canvas element by element: an image of an SVG would need blob: in the content-security policy.

const KEPT = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linejoin",
  "fill-opacity",
  "stroke-opacity",
  "opacity",
  "font-size",
  "font-family",
  "font-weight",
  "text-anchor",
];

const background = (svg) => getComputedStyle(svg.closest(".card") ?? document.body).backgroundColor;

// The text of an SVG in which every element carries the look that the page gives it.
export function svgText(svg) {
  const { width, height } = svg.getBoundingClientRect(),
    copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")],
    copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((original, i) => {
    const look = getComputedStyle(original);
    if (original !== svg) for (const name of KEPT) copies[i].setAttribute(name, look.getPropertyValue(name));
    for (const name of ["class", "tabindex", "style"]) copies[i].removeAttribute(name);
  });
  copy.querySelectorAll("[data-transient]").forEach((element) => element.remove());
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ width, height, fill: background(svg) }))
    ground.setAttribute(name, value);
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

function drawElement(context, element, look) {
  const of = (name) => element[name].baseVal.value;
  const shape = new Path2D();
  switch (element.tagName) {
    case "rect":
      shape.roundRect(of("x"), of("y"), of("width"), of("height"), element.rx.baseVal.value || 0);
      break;
    case "circle":
      shape.arc(of("cx"), of("cy"), of("r"), 0, 2 * Math.PI);
      break;
    case "line":
      shape.moveTo(of("x1"), of("y1"));
      shape.lineTo(of("x2"), of("y2"));
      break;
    case "path":
      shape.addPath(new Path2D(element.getAttribute("d")));
      break;
    case "text":
      context.font = `${look.fontWeight} ${look.fontSize} ${look.fontFamily}`;
      context.textAlign = { middle: "center", end: "end" }[look.textAnchor] ?? "start";
      context.fillStyle = look.fill;
      context.fillText(element.textContent, element.x.baseVal[0]?.value ?? 0, element.y.baseVal[0]?.value ?? 0);
      return;
    default:
      return;
  }
  const opacity = context.globalAlpha;
  if (look.fill !== "none") {
    context.globalAlpha = opacity * Number(look.fillOpacity);
    context.fillStyle = look.fill;
    context.fill(shape);
  }
  if (look.stroke !== "none") {
    context.globalAlpha = opacity * Number(look.strokeOpacity);
    context.strokeStyle = look.stroke;
    context.lineWidth = parseFloat(look.strokeWidth);
    context.setLineDash(look.strokeDasharray === "none" ? [] : look.strokeDasharray.split(/[ ,]+/).map(parseFloat));
    context.stroke(shape);
  }
}

// The SVG on a canvas, `scale` times as large.
export function canvasOf(svg, scale = 2) {
  const { width, height } = svg.getBoundingClientRect(),
    canvas = document.createElement("canvas");
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  context.fillStyle = background(svg);
  context.fillRect(0, 0, canvas.width, canvas.height);
  for (const element of svg.querySelectorAll("rect, circle, line, path, text")) {
    if (element.closest("[data-transient], clipPath")) continue;
    const m = element.getCTM(),
      look = getComputedStyle(element);
    if (!m || look.display === "none") continue;
    context.setTransform(scale * m.a, scale * m.b, scale * m.c, scale * m.d, scale * m.e, scale * m.f);
    context.globalAlpha = Number(look.opacity);
    drawElement(context, element, look);
  }
  return canvas;
}

// Rows of values as CSV; what holds a comma, a quote or a line end is quoted.
export function csvText(columns, rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

// Hands a text or a blob to the browser as a file.
export function save(name, content, type) {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export const savePng = (name, svg) => canvasOf(svg).toBlob((blob) => save(name, blob), "image/png");
