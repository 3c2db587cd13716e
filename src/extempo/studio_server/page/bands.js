// Layers of a tall drawing, cut into bands: those out of sight are not displayed, so that thousands of nodes stay quick.

import { s } from "./dom.js";

const HEIGHT = 1200; // of a band, as the drawing measures
const bandAt = (y) => Math.floor(y / HEIGHT);

export class Bands {
  // Elements of later layers cover those of earlier ones.
  constructor(...layers) {
    this.root = s("g", { class: "drawing" });
    this.layers = new Map(layers.map((name) => [name, this.root.appendChild(s("g"))]));
    this.bands = new Map();
  }

  // Puts an element where it belongs; what crosses the edge of a band is always displayed.
  add(layer, element, top, bottom) {
    const number = bandAt(top) === bandAt(bottom) ? bandAt(top) : null,
      key = `${layer} ${number}`;
    if (!this.bands.has(key))
      this.bands.set(key, { number, group: this.layers.get(layer).appendChild(s("g", { class: "band" })) });
    this.bands.get(key).group.append(element);
  }

  // Displays what is between two heights.
  show(top, bottom) {
    const first = bandAt(top),
      last = bandAt(bottom);
    for (const { number, group } of this.bands.values()) {
      const isOut = number !== null && (number < first || number > last);
      if (isOut) group.setAttribute("display", "none");
      else group.removeAttribute("display");
    }
  }
}
