// Where one looks in a drawing: pan and zoom by mouse, fingers and keys, and boxes that are brought into the picture.

import { clamp, drawnLater } from "./dom.js";

const LEAST = 0.02,
  MOST = 4,
  READABLE = 0.55,
  NEAR = 1.25,
  MARGIN = 12;
const SMALL_PRINT = 0.35; // zoom below which text is left out

export class Camera {
  // Moves `ground`, a group within `svg`; `size` is that of the drawing: { width, height }. onlook(top, bottom) is told
  // which part of it is in the picture.
  constructor(svg, ground, onlook) {
    Object.assign(this, { svg, ground, onlook, size: null, x: 0, y: 0, k: 1, hasMoved: false });
    this.reset();
    this.listen();
    new ResizeObserver(() => this.resized()).observe(svg);
  }

  // Forgets what the user chose to look at.
  reset() {
    this.isAimed = false; // by the user, and so kept when the window changes
    this.waiting = null; // a box to look at once the panel is shown
  }

  get isHidden() {
    return !this.svg.clientWidth || !this.svg.clientHeight;
  }

  aim(x, y, k) {
    Object.assign(this, { x, y, k });
    this.ground.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${k.toFixed(4)})`);
    this.ground.classList.toggle("far", k < SMALL_PRINT);
    this.look();
  }

  look() {
    this.onlook(-this.y / this.k, (this.svg.clientHeight - this.y) / this.k);
  }

  // All of the drawing, or as much of it as can be read.
  fit() {
    if (this.isHidden || !this.size) return;
    const { clientWidth: wide, clientHeight: high } = this.svg,
      { width, height } = this.size,
      across = (wide - 2 * MARGIN) / width;
    const whole = Math.min(NEAR, across, (high - 2 * MARGIN) / height),
      k = clamp(Math.max(whole, Math.min(READABLE, across)), LEAST, NEAR);
    this.aim((wide - width * k) / 2, height * k > high - 2 * MARGIN ? MARGIN : (high - height * k) / 2, k);
  }

  fitAgain() {
    this.reset();
    this.fit();
  }

  resized() {
    if (this.isHidden || !this.size) return;
    if (this.isAimed) this.look();
    else this.fit();
    if (this.waiting) this.centreOn(this.waiting);
  }

  zoom(factor, x = this.svg.clientWidth / 2, y = this.svg.clientHeight / 2) {
    const k = clamp(this.k * factor, LEAST, MOST);
    this.isAimed = true;
    this.aim(x - ((x - this.x) * k) / this.k, y - ((y - this.y) * k) / this.k, k);
  }

  centreOn(box, isWanted = true) {
    this.waiting = this.isHidden ? box : null;
    if (!box || this.waiting) return;
    const k = Math.max(this.k, READABLE);
    this.isAimed ||= isWanted;
    this.aim(
      this.svg.clientWidth / 2 - (box.x + box.width / 2) * k,
      this.svg.clientHeight / 2 - (box.y + box.height / 2) * k,
      k,
    );
  }

  // Keeps a box that something just happened to in the picture.
  follow(box) {
    if (this.isHidden || !box) return;
    const left = this.x + box.x * this.k,
      top = this.y + box.y * this.k;
    const isOut =
      left < 0 ||
      top < 0 ||
      left + box.width * this.k > this.svg.clientWidth ||
      top + box.height * this.k > this.svg.clientHeight;
    if (isOut) this.centreOn(box, false);
  }

  // After a box has moved in the drawing it is where it was on the screen.
  keep(before, after) {
    this.aim(
      this.x + (before.x + before.width / 2 - after.x - after.width / 2) * this.k,
      this.y + (before.y - after.y) * this.k,
      this.k,
    );
  }

  // ---- mouse and fingers

  listen() {
    const { svg } = this,
      pointers = new Map(),
      moved = drawnLater(() => this.aim(this.x, this.y, this.k));
    let spread = 0;
    const place = (x, y) => {
      const box = svg.getBoundingClientRect();
      return [x - box.left, y - box.top];
    };
    svg.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, event);
      this.hasMoved = false;
    });
    window.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const dx = event.clientX - before.clientX,
        dy = event.clientY - before.clientY;
      if (Math.abs(dx) + Math.abs(dy) > 2) this.hasMoved = true;
      pointers.set(event.pointerId, event);
      if (pointers.size === 1) {
        Object.assign(this, { x: this.x + dx, y: this.y + dy, isAimed: true });
        moved();
      } else {
        const [a, b] = [...pointers.values()],
          now = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
        if (spread) this.zoom(now / spread, ...place((a.clientX + b.clientX) / 2, (a.clientY + b.clientY) / 2));
        spread = now;
      }
    });
    const lift = (event) => {
      pointers.delete(event.pointerId);
      spread = 0;
    };
    window.addEventListener("pointerup", lift);
    window.addEventListener("pointercancel", lift);
    const turn = (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), ...place(event.clientX, event.clientY));
    };
    svg.addEventListener("wheel", turn, { passive: false });
  }
}
