"use strict";
// The page of a drawing: folds and unfolds groups, lays them out, zooms, searches, and shows what is known of an op.
// `view` and `layOut` do what view.py and layout.py do, step by step under the same names; a test compares the two.

const ROOT = 0;

// ---- what is to be seen (view.py)

function makeView(D, opened, unrolled) {
  const E = D.elements, view = { opened, unrolled, frames: [], boxes: [], frameOf: new Map() };
  const isGroup = (n) => E[n].mem !== undefined;
  const ancestors = (n) => {
    const found = [];
    while (n !== ROOT) { n = E[n].up; found.push(n); }
    return found.reverse();
  };
  view.children = (n) => {
    const group = E[n];
    if (!group.per || unrolled.has(n)) return group.mem;
    const turn = group.mem.slice(0, group.per);
    return turn.length === 1 && isGroup(turn[0]) ? view.children(turn[0]) : turn;
  };
  const collect = (n) => {
    view.frames.push(n);
    for (const child of view.children(n)) {
      view.frameOf.set(child, n);
      if (isGroup(child) && opened.has(child)) collect(child); else view.boxes.push(child);
    }
  };
  collect(ROOT);
  view.resolve = (n) => {
    let twins;
    while ((twins = D.twins[n])) {
      const rolled = ancestors(n).filter((loop) => twins[loop] !== undefined && !unrolled.has(loop));
      if (!rolled.length) break;
      n = twins[rolled[0]];
    }
    return n;
  };
  view.box = (n) => {
    const found = view.resolve(n);
    for (const around of ancestors(found)) {
      if (view.frameOf.has(around) && !opened.has(around)) return around;
    }
    return found;
  };
  const turnOf = (loop, n) => {
    const chain = [...ancestors(n), n], at = chain.indexOf(loop);
    return at < 0 ? -1 : Math.floor(E[loop].mem.indexOf(chain[at + 1]) / E[loop].per);
  };
  const isHandedOn = (source, target, box) => {
    const loops = [...ancestors(box), box].filter((n) => E[n].per && !unrolled.has(n));
    return loops.some((loop) => turnOf(loop, source) !== turnOf(loop, target));
  };
  view.boxOf = new Map();
  for (let n = 0; n < E.length; n++) if (!isGroup(n)) view.boxOf.set(n, view.box(n));
  const order = new Map(view.boxes.map((box, place) => [box, place])), seen = new Map();
  view.edges = [];
  for (const [n, target] of view.boxOf) {
    for (const input of E[n].i) {
      const source = view.boxOf.get(input);
      if (source === target && !isHandedOn(input, n, source)) continue;
      const carried = order.get(source) >= order.get(target), key = `${source},${target},${carried}`;
      const cut = E[input].g && !E[n].g && E[n].k === "op";
      if (seen.has(key)) { seen.get(key).cut &&= cut; continue; }
      const edge = { source, target, item: input, carried, cut };
      seen.set(key, edge);
      view.edges.push(edge);
    }
  }
  return view;
}

// ---- where it stands (layout.py)

const short = (text, most) => (text.length <= most ? text : text.slice(0, most - 1) + "…");

function insideOf(D, n, found = []) {
  if (D.elements[n].mem === undefined) found.push(n);
  else for (const member of D.elements[n].mem) insideOf(D, member, found);
  return found;
}

function linesOf(D, n) {
  const e = D.elements[n];
  if (e.mem === undefined) return [short(e.t, 34), short(e.k === "input" ? e.v : e.a, 34)];
  const turns = e.per ? e.mem.length / e.per : 1;
  const ops = Math.floor(insideOf(D, n).filter((m) => D.elements[m].k !== "input").length / turns);
  let small = `${ops.toLocaleString("en")} op${ops === 1 ? "" : "s"}${e.per ? " each" : ""}`;
  if (e.np) small += `, ${e.np.toLocaleString("en")} parameters`;
  return [short(e.t, 44), small];
}

const shapesText = (shapes) => (shapes.length > 1 ? `${shapes[0]} +${shapes.length - 1}` : shapes.join(""));

const pillText = (p) => `${short(p[0].split(".").pop(), 16)} ${p[1]}`;

function sizeOf(D, n) {
  const C = D.constants, e = D.elements[n], [title, small] = linesOf(D, n);
  let width = Math.max(64, title.length * C.CHARACTER + 20, small.length * C.SMALL_CHARACTER + 18);
  let height = small ? 40 : 28, pills = 0;
  if (e.m) { height += 14; width = Math.max(width, short(e.m, 70).length * C.SMALL_CHARACTER + 18); }
  if (e.n && e.n.length) { height += 13; width = Math.max(width, short(e.n[0], 44).length * C.SMALL_CHARACTER + 18); }
  if (e.p && e.p.length) {
    pills = Math.max(...e.p.map((p) => pillText(p).length)) * C.SMALL_CHARACTER + 12 + C.PILL_GAP;
    height = Math.max(height, e.p.length * (C.PILL_HEIGHT + 3) - 3);
  }
  return { width: width + pills, height, pills };
}

function layOut(D, view, top) {
  const C = D.constants, sizes = new Map(view.boxes.map((box) => [box, sizeOf(D, box)]));
  const local = new Map(), segments = new Map(), stubs = new Map(), portsIn = new Map(), portsOut = new Map();
  const carries = new Set(view.edges.filter((e) => e.carried).map((e) => view.frameOf.get(e.target)));
  const wiresOf = new Map(view.frames.map((frame) => [frame, new Map()]));
  const chainOf = (box) => {
    const chain = [box];
    while (chain[chain.length - 1] !== ROOT) chain.push(view.frameOf.get(chain[chain.length - 1]));
    return chain.reverse();
  };
  const wireOf = (frame, source, start) => {
    const wires = wiresOf.get(frame);
    if (!wires.has(source)) wires.set(source, { source, start, ends: new Set(), leaves: false });
    return wires.get(source);
  };
  for (const { source, target, carried } of view.edges) {
    if (carried) continue;
    const a = chainOf(source), b = chainOf(target);
    let common = 0;
    while (a[common + 1] === b[common + 1]) common++;
    for (let depth = common; depth < a.length - 1; depth++) {
      const wire = wireOf(a[depth], source, a[depth + 1]);
      if (depth === common) wire.ends.add(b[depth + 1]); else wire.leaves = true;
    }
    for (let depth = common + 1; depth < b.length - 1; depth++) wireOf(b[depth], source, -1).ends.add(b[depth + 1]);
  }

  // A vertex is a number: a child, or -2 - source for a lane.
  const lane = (source) => -2 - source, isLane = (v) => v < -1;
  const widthOf = (v) => (isLane(v) ? C.LANE : sizes.get(v).width);

  function rowsOf(children, wires) {
    const sources = new Map(children.map((c) => [c, []])), fed = new Set(), uses = new Map(), row = new Map();
    for (const wire of wires) {
      for (const end of wire.ends) {
        fed.add(end);
        if (wire.start !== -1) sources.get(end).push(wire.start);
      }
      if (wire.start !== -1) uses.set(wire.start, [...wire.ends]);
    }
    for (const c of children) row.set(c, sources.get(c).reduce((most, s) => Math.max(most, row.get(s) + 1), 0));
    for (const c of children) {
      if (!fed.has(c) && uses.has(c) && uses.get(c).length) {
        row.set(c, Math.max(0, Math.min(...uses.get(c).map((u) => row.get(u))) - 1));
      }
    }
    return row;
  }

  function verticesOf(children, wires, row, n) {
    const rows = Array.from({ length: n + 2 }, () => []), from = new Map();
    for (const wire of wires) {
      if (!from.has(wire.start)) from.set(wire.start, []);
      from.get(wire.start).push(wire);
    }
    const addLanes = (start) => {
      for (const wire of from.get(start) || []) {
        if (start === -1) rows[0].push(lane(wire.source));
        for (let r = wire.first + 1; r < (wire.reaches ? n + 1 : wire.last); r++) rows[r + 1].push(lane(wire.source));
        if (wire.leaves && !wire.reaches) rows[n + 1].push(lane(wire.source));
      }
    };
    addLanes(-1);
    for (const c of children) { rows[row.get(c) + 1].push(c); addLanes(c); }
    return rows;
  }

  function linksOf(wires, row, n) {
    const links = Array.from({ length: n + 1 }, () => []);
    for (const wire of wires) {
      const own = lane(wire.source), above = (r) => (r === wire.first && wire.start !== -1 ? wire.start : own);
      for (let r = wire.first; r < wire.last; r++) {
        if (r + 1 < wire.last || wire.reaches) links[r + 1].push([above(r), own]);
      }
      for (const end of wire.near) links[row.get(end)].push([above(row.get(end) - 1), end]);
    }
    return links;
  }

  const sweep = (n, down, visit) => {
    if (down) for (let i = 1; i < n; i++) visit(i, i - 1, i - 1);
    else for (let i = n - 2; i >= 0; i--) visit(i, i + 1, i);
  };

  function order(rows, links) {
    for (let k = 0; k < C.N_SWEEPS; k++) {
      const down = k % 2 === 0;
      sweep(rows.length, down, (i, other, between) => {
        const place = new Map(rows[other].map((v, at) => [v, at])), sums = new Map();
        for (const [above, below] of links[between]) {
          const moved = down ? below : above, sum = sums.get(moved) || [0, 0];
          sum[0] += place.get(down ? above : below);
          sum[1] += 1;
          sums.set(moved, sum);
        }
        const keys = new Map(), share = rows[other].length / Math.max(rows[i].length, 1);
        rows[i].forEach((v, at) => keys.set(v, sums.has(v) ? sums.get(v)[0] / sums.get(v)[1] : at * share));
        rows[i].sort((a, b) => keys.get(a) - keys.get(b));
      });
    }
  }

  const offset = (v) => (isLane(v) ? 0 : sizes.get(v).pills / 2);

  function apart(row, wanted) {
    const n = row.length, right = wanted.slice(), left = wanted.slice(), gaps = [];
    for (let i = 0; i + 1 < n; i++) {
      gaps.push((widthOf(row[i]) + widthOf(row[i + 1])) / 2 + (isLane(row[i]) || isLane(row[i + 1]) ? C.LANE / 2 : C.GAP_X));
    }
    for (let i = 1; i < n; i++) right[i] = Math.max(right[i], right[i - 1] + gaps[i - 1]);
    for (let i = n - 2; i >= 0; i--) left[i] = Math.min(left[i], left[i + 1] - gaps[i]);
    return right.map((x, i) => (x + left[i]) / 2);
  }

  function columns(rows, links) {
    const centres = rows.map((row) => {
      const found = new Map();
      let x = 0;
      for (const v of row) { found.set(v, x + widthOf(v) / 2); x += widthOf(v) + (isLane(v) ? C.LANE / 2 : C.GAP_X); }
      for (const [v, at] of found) found.set(v, at - x / 2);
      return found;
    });
    for (let k = 0; k < 2 * C.N_SWEEPS; k++) {
      const down = k % 2 === 0;
      sweep(rows.length, down, (i, other, between) => {
        const sums = new Map();
        for (const [above, below] of links[between]) {
          const moved = down ? below : above, fixed = down ? above : below;
          const at = centres[other].get(fixed) + offset(fixed) - offset(moved);
          const sum = sums.get(moved) || [0, 0];
          sum[0] += at;
          sum[1] += 1;
          sums.set(moved, sum);
        }
        const wanted = rows[i].map((v) => (sums.has(v) ? sums.get(v)[0] / sums.get(v)[1] : centres[i].get(v)));
        apart(rows[i], wanted).forEach((at, place) => centres[i].set(rows[i][place], at));
      });
    }
    return centres;
  }

  function finish(frame, rows, wires, row, centres) {
    let left = Infinity, right = -Infinity;
    for (const found of centres) {
      for (const [v, at] of found) {
        left = Math.min(left, at - widthOf(v) / 2);
        right = Math.max(right, at + widthOf(v) / 2);
      }
    }
    if (left > right) left = right = 0;
    const shift = C.PADDING - left;
    for (const found of centres) for (const [v, at] of found) found.set(v, at + shift);
    const tops = [0], bottoms = [0];
    let y = (frame === ROOT ? C.PADDING : C.HEADER + 8) + (rows[0].length ? 14 : 0);
    for (const found of rows.slice(1, -1)) {
      const height = found.reduce((most, v) => (isLane(v) ? most : Math.max(most, sizes.get(v).height)), 0);
      tops.push(y);
      bottoms.push(y + height);
      y += height + C.GAP_Y;
    }
    y += -C.GAP_Y + (rows[rows.length - 1].length ? C.GAP_Y * 0.7 : C.PADDING);
    tops.push(y);
    bottoms.push(y);
    rows.forEach((found, i) => {
      for (const v of found) {
        if (isLane(v)) continue;
        const { width, height } = sizes.get(v), room = bottoms[i] - tops[i] - height;
        local.set(v, [centres[i].get(v) - width / 2, tops[i] + (view.opened.has(v) ? 0 : room / 2)]);
      }
    });
    let width = Math.max(right - left + 2 * C.PADDING, frame === ROOT ? 0 : linesOf(D, frame)[0].length * C.CHARACTER + 2 * C.PADDING);
    if (carries.has(frame)) width += C.CARRY;
    sizes.set(frame, { width, height: y, pills: 0 });
    const ports = (found, at) => new Map(found.map((v) => [-2 - v, at.get(v)]));
    portsIn.set(frame, ports(rows[0], centres[0]));
    portsOut.set(frame, ports(rows[rows.length - 1], centres[centres.length - 1]));
    ways(frame, wires, row, centres, tops, bottoms);
  }

  const leaving = (wire) => {
    const x = local.get(wire.start)[0], { width, pills } = sizes.get(wire.start), ports = portsOut.get(wire.start);
    return ports && ports.has(wire.source) ? x + ports.get(wire.source) : x + pills + (width - pills) / 2;
  };

  function entriesOf(end, found) {
    const x = local.get(end)[0], { width, pills } = sizes.get(end), ports = portsIn.get(end);
    if (ports) return found.map(([, source]) => [x + ports.get(source), source]);
    const step = Math.min(16, (width - pills - 16) / found.length);
    const first = x + pills + (width - pills) / 2 - (step * (found.length - 1)) / 2;
    return found.map(([, source], i) => [first + i * step, source]);
  }

  function ways(frame, wires, row, centres, tops, bottoms) {
    const ownSegments = [], ownStubs = [], arriving = new Map(), entries = new Map();
    for (const wire of wires) {
      for (const end of wire.ends) {
        let at = centres[row.get(end)].get(lane(wire.source));
        if (at === undefined && wire.start !== -1) at = leaving(wire);
        if (!arriving.has(end)) arriving.set(end, []);
        arriving.get(end).push([at === undefined ? -1 : at, wire.source]);
      }
    }
    for (const [end, found] of arriving) {
      found.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      for (const [x, source] of entriesOf(end, found)) entries.set(`${end},${source}`, x);
    }
    for (const wire of wires) {
      const own = lane(wire.source), source = wire.source;
      for (const end of wire.far) ownStubs.push({ source, target: end, x: entries.get(`${end},${source}`), y: local.get(end)[1] });
      let x, y;
      if (wire.start === -1) [x, y] = [centres[0].get(own), 0];
      else [x, y] = [leaving(wire), local.get(wire.start)[1] + sizes.get(wire.start).height];
      const endsByRow = new Map();
      for (const end of wire.near) {
        if (!endsByRow.has(row.get(end))) endsByRow.set(row.get(end), []);
        endsByRow.get(row.get(end)).push(end);
      }
      for (let r = wire.first + 1; r <= wire.last; r++) {
        for (const end of endsByRow.get(r) || []) {
          const target = view.opened.has(end) ? -1 : end;
          ownSegments.push({ source, target, x0: x, y0: y, x1: entries.get(`${end},${source}`), y1: local.get(end)[1] });
        }
        if (centres[r + 1].has(own)) {
          const at = centres[r + 1].get(own);
          ownSegments.push({ source, target: -1, x0: x, y0: y, x1: at, y1: tops[r + 1] });
          if (bottoms[r + 1] > tops[r + 1]) {
            ownSegments.push({ source, target: -1, x0: at, y0: tops[r + 1], x1: at, y1: bottoms[r + 1] });
          }
          [x, y] = [at, bottoms[r + 1]];
        }
      }
    }
    segments.set(frame, ownSegments);
    stubs.set(frame, ownStubs);
  }

  function arrange(frame) {
    const children = view.children(frame);
    for (const child of children) if (view.opened.has(child)) arrange(child);
    const wires = [...wiresOf.get(frame).values()], row = rowsOf(children, wires);
    let n = 0;
    for (const r of row.values()) n = Math.max(n, r + 1);
    for (const wire of wires) {
      wire.first = wire.start === -1 ? -1 : row.get(wire.start);
      wire.near = [...wire.ends].filter((end) => row.get(end) - wire.first <= C.LONGEST);
      wire.far = [...wire.ends].filter((end) => row.get(end) - wire.first > C.LONGEST);
      wire.reaches = wire.leaves && n - wire.first <= C.LONGEST;
      wire.last = wire.reaches ? n : wire.near.reduce((most, end) => Math.max(most, row.get(end)), wire.first);
    }
    const rows = verticesOf(children, wires, row, n), links = linksOf(wires, row, n);
    order(rows, links);
    finish(frame, rows, wires, row, columns(rows, links));
  }

  const layout = { boxes: new Map(), segments: [], stubs: [] };
  function place(frame, x, y) {
    const { width, height } = sizes.get(frame);
    layout.boxes.set(frame, { x, y, width, height, pills: 0 });
    for (const child of view.children(frame)) {
      const [dx, dy] = local.get(child);
      if (view.opened.has(child)) place(child, x + dx, y + dy);
      else layout.boxes.set(child, { x: x + dx, y: y + dy, ...sizes.get(child) });
    }
    for (const s of segments.get(frame)) {
      layout.segments.push({ ...s, x0: x + s.x0, y0: y + s.y0, x1: x + s.x1, y1: y + s.y1 });
    }
    for (const s of stubs.get(frame)) layout.stubs.push({ ...s, x: x + s.x, y: y + s.y });
  }
  arrange(ROOT);
  place(ROOT, 0, top);
  layout.width = sizes.get(ROOT).width;
  layout.height = top + sizes.get(ROOT).height;
  return layout;
}

// ---- the page

function startViewer(D) {
  const E = D.elements, svg = document.getElementById("graph"), panel = document.getElementById("panel");
  const opened = new Set(D.opened), unrolled = new Set(D.unrolled);
  const isGroup = (n) => E[n].mem !== undefined;
  const groups = E.map((e, n) => n).filter((n) => isGroup(n) && n !== ROOT), loops = groups.filter((n) => E[n].per);
  let view, layout, gradients = D.gradients, selected = null, way = D.way ? new Set(D.way) : null, found = new Set();
  let camera = { x: 0, y: 0, k: 1 };
  const users = new Map();
  E.forEach((e, n) => { for (const i of e.i || []) (users.get(i) || users.set(i, []).get(i)).push(n); });
  const esc = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const num = (x) => Math.round(x * 10) / 10;

  function wayTo(starts) {
    const seen = new Set(starts), stack = [...starts];
    while (stack.length) for (const i of E[stack.pop()].i) if (!seen.has(i)) { seen.add(i); stack.push(i); }
    return seen;
  }

  function text(x, y, words, name) {
    return `<text x="${num(x)}" y="${num(y)}" class="${name}">${esc(words)}</text>`;
  }

  function head(x, y, name) {
    return `<path class="head ${name}" d="M${num(x - 4)} ${num(y - 7)}h8l-4 7z"/>`;
  }

  function draw() {
    view = makeView(D, opened, unrolled);
    layout = layOut(D, view, 0);
    paint();
  }

  function paint() {
    const on = way && new Set([...way].map((n) => view.boxOf.get(n)));
    const hits = new Set([...found].map((n) => (isGroup(n) ? (view.frameOf.has(n) ? n : -1) : view.boxOf.get(n))));
    const carries = new Map(view.edges.map((e) => [e.source, e.item]));
    const gradTo = new Set();
    if (gradients) {
      for (const e of view.edges) {
        if (E[e.item].g && insideOf(D, e.target).some((n) => E[n].g)) gradTo.add(`${e.source},${e.target}`);
      }
    }
    // How far down a value's lane leads to what is chosen, on the way or by a gradient.
    const reach = new Map();
    for (const e of view.edges) {
      const isChosen = on ? on.has(e.source) && on.has(e.target) : gradTo.has(`${e.source},${e.target}`);
      if (isChosen) reach.set(e.source, Math.max(reach.get(e.source) ?? -Infinity, layout.boxes.get(e.target).y));
    }
    const kind = (s, t, y = 0) => {
      const chosen = t === -1 ? y < (reach.get(s) ?? -Infinity) : on ? on.has(s) && on.has(t) : gradTo.has(`${s},${t}`);
      return on ? (chosen ? "way" : "off") : chosen ? "grad" : "";
    };
    const parts = [], titles = [];
    for (const n of view.frames.slice(1)) {
      const b = layout.boxes.get(n), hit = hits.has(n) ? " hit" : "";
      parts.push(`<g class="frame ${E[n].kind}${hit}" data-n="${n}"><rect x="${num(b.x)}" y="${num(b.y)}" width="${num(b.width)}" height="${num(b.height)}" rx="8"/></g>`);
      titles.push(`<g class="fold${hit}" data-fold="${n}"><rect class="catch" x="${num(b.x)}" y="${num(b.y)}" width="${num(b.width)}" height="24" rx="8"/>`
        + text(b.x + 10, b.y + 17, "▾ " + E[n].t, "frame-title") + "</g>");
    }
    const cuts = new Set(view.edges.filter((e) => e.cut).map((e) => `${e.source},${e.target}`));
    const lines = new Map(), heads = [], labels = [], labelled = new Set();
    for (const s of layout.segments) {
      const name = kind(s.source, s.target, s.y0), y1 = s.target === -1 ? s.y1 : s.y1 - 6, bend = Math.max(12, (y1 - s.y0) / 2);
      const d = Math.abs(s.x0 - s.x1) < 0.5 ? `M${num(s.x0)} ${num(s.y0)}V${num(y1)}`
        : `M${num(s.x0)} ${num(s.y0)}C${num(s.x0)} ${num(s.y0 + bend)} ${num(s.x1)} ${num(y1 - bend)} ${num(s.x1)} ${num(y1)}`;
      const drawn = cuts.has(`${s.source},${s.target}`) ? `${name} cut` : name;
      lines.set(drawn, (lines.get(drawn) || "") + d);
      if (s.target !== -1) {
        heads.push(head(s.x1, s.y1, name));
        if (name === "grad") heads.push(`<path class="head grad" d="M${num(s.x1 - 3.5)} ${num(s.y1 - 8)}h7l-3.5 -6z"/>`);
      }
      const b = layout.boxes.get(s.source);
      if (!labelled.has(s.source) && Math.abs(s.y0 - b.y - b.height) < 0.5) {
        labelled.add(s.source);
        const left = s.x1 > s.x0 + 8; // where the line does not go
        labels.push(text(s.x0 + (left ? -5 : 5), s.y0 + 12, short(shapesText(E[carries.get(s.source)].s), 30), left ? "shape end" : "shape"));
      }
    }
    for (const name of ["off", "off cut", "", " cut", "grad", "way", "way cut"]) if (lines.has(name)) parts.push(`<path class="edge ${name}" d="${lines.get(name)}"/>`);
    for (const e of view.edges) {
      if (!e.carried) continue;
      const a = layout.boxes.get(e.source), b = layout.boxes.get(e.target), self = e.source === e.target, name = kind(e.source, e.target);
      const ax = a.x + a.width + (isGroup(e.source) ? 3 : 0), bx = b.x + b.width + (isGroup(e.target) ? 3 : 0), ay = a.y + a.height * (self ? 0.72 : 0.5), by = b.y + b.height * (self ? 0.28 : 0.5);
      const f = layout.boxes.get(view.frameOf.get(e.target)), room = D.constants.CARRY * 0.5;
      const out = self ? Math.max(ax, bx) + room : f.x + f.width - room;
      parts.push(`<path class="edge carried ${name}" d="M${num(ax)} ${num(ay)}H${num(out)}V${num(by)}H${num(bx + 6)}"/>`);
      heads.push(`<path class="head ${name}" d="M${num(bx)} ${num(by)}l7 -4v8z"/>`);
    }
    for (const s of layout.stubs) {
      heads.push(`<path class="edge stub" d="M${num(s.x)} ${num(s.y - 16)}v10"/>` + head(s.x, s.y, ""));
      labels.push(text(s.x, s.y - 19, short(E[s.source].t, 14), "shape middle"));
    }
    parts.push(...heads, ...titles);
    for (const n of view.boxes) parts.push(boxOf(n, on, hits));
    parts.push(...labels);
    svg.firstElementChild.innerHTML = parts.join("");
  }

  function boxOf(n, on, hits) {
    const e = E[n], b = layout.boxes.get(n), [title, small] = linesOf(D, n), x = b.x + b.pills, w = b.width - b.pills;
    const names = ["box", isGroup(n) ? "folded" : e.k, e.st || "", e.out || (isGroup(n) && insideOf(D, n).some((m) => E[m].out)) ? "output" : "", n === selected ? "selected" : "",
      on ? (on.has(n) ? "way" : "off") : "", hits.has(n) ? "hit" : ""].filter(Boolean).join(" ");
    const parts = [`<g class="${names}" data-n="${n}">`];
    const rect = (dx, name) => `<rect class="${name}" x="${num(x + dx)}" y="${num(b.y + dx)}" width="${num(w)}" height="${num(b.height)}" rx="${!isGroup(n) && e.k !== "op" ? 14 : 6}"/>`;
    if (isGroup(n)) parts.push(rect(3, "shade"));
    parts.push(rect(0, "face"));
    const lines = [small, e.m ? short(e.m, 70) : "", e.n && e.n.length ? short(e.n[0], 44) : ""];
    let y = b.y + b.height / 2 - lines.filter(Boolean).length * 6.5 + 4;
    parts.push(text(x + w / 2, y, title, "title"));
    lines.forEach((line, i) => { if (line) parts.push(text(x + w / 2, (y += 13.5), line, i === 1 ? "small bad" : "small")); });
    if (isGroup(n)) parts.push(`<g class="fold" data-fold="${n}"><circle cx="${num(x + w - 1)}" cy="${num(b.y + 1)}" r="8"/>${text(x + w - 1, b.y + 5, "+", "plus")}</g>`);
    if (e.p) {
      const step = D.constants.PILL_HEIGHT + 3;
      let py = b.y + (b.height - e.p.length * step + 3) / 2;
      for (const p of e.p) {
        const pw = b.pills - 14, my = py + D.constants.PILL_HEIGHT / 2, g = gradients && p[2] ? "grad" : "", end = b.x + b.pills;
        parts.push(`<rect class="pill ${p[2] ? "learns" : ""}" x="${num(b.x)}" y="${num(py)}" width="${num(pw)}" height="17" rx="8.5"><title>${esc(p[0] + " " + p[1])}</title></rect>`
          + text(b.x + pw / 2, py + 12, pillText(p), "small pill-text")
          + `<path class="edge ${g}" d="M${num(b.x + pw)} ${num(my)}H${num(end - 5)}"/><path class="head ${g}" d="M${num(end - 6)} ${num(my - 3.5)}v7l6 -3.5z"/>`);
        py += step;
      }
    }
    return parts.join("") + "</g>";
  }

  // ---- where one looks

  function aim() { svg.firstElementChild.setAttribute("transform", `translate(${num(camera.x)} ${num(camera.y)}) scale(${camera.k})`); }
  function fit() {
    const w = svg.clientWidth, h = svg.clientHeight, k = Math.min(1.25, (w - 24) / layout.width, (h - 24) / layout.height);
    camera.k = Math.max(k, Math.min(1, 0.35, (w - 24) / layout.width) || 0.02);
    camera.x = Math.max((w - layout.width * camera.k) / 2, 12);
    if (layout.width * camera.k > w) camera.x = (w - layout.width * camera.k) / 2;
    camera.y = layout.height * camera.k > h - 24 ? 12 : Math.min((h - layout.height * camera.k) / 2, 40);
    aim();
  }
  function zoom(factor, cx = svg.clientWidth / 2, cy = svg.clientHeight / 2) {
    const k = Math.min(4, Math.max(0.02, camera.k * factor));
    camera.x = cx - ((cx - camera.x) * k) / camera.k;
    camera.y = cy - ((cy - camera.y) * k) / camera.k;
    camera.k = k;
    aim();
  }
  function centreOn(n) {
    const b = layout.boxes.get(n);
    if (!b) return;
    camera.k = Math.max(camera.k, 0.8);
    camera.x = svg.clientWidth / 2 - (b.x + b.width / 2) * camera.k;
    camera.y = svg.clientHeight / 2 - (b.y + b.height / 2) * camera.k;
    aim();
  }

  // Draw anew, with one element staying where it was on the screen.
  function keeping(n, change) {
    const before = layout.boxes.get(n);
    change();
    draw();
    const after = layout.boxes.get(n);
    if (before && after) {
      camera.x += (before.x + before.width / 2 - after.x - after.width / 2) * camera.k;
      camera.y += (before.y - after.y) * camera.k;
      aim();
    } else fit();
  }
  function fold(n) { keeping(n, () => { if (opened.has(n)) opened.delete(n); else opened.add(n); }); }
  function unroll(n) { keeping(n, () => { if (unrolled.has(n)) unrolled.delete(n); else { unrolled.add(n); opened.add(n); } }); }
  function reveal(n) {
    for (let up = E[n].up; up !== undefined && up !== ROOT; up = E[up].up) opened.add(up);
    draw();
    return isGroup(n) ? n : view.boxOf.get(n);
  }

  // ---- what is known of one element

  function row(name, value) { return value ? `<tr><th>${name}</th><td>${esc(value)}</td></tr>` : ""; }
  function codeOf(where) {
    const lines = D.code[where];
    if (!lines) return "";
    const at = Number(where.split(":").pop());
    return "<pre>" + lines.map(([n, words]) => `<span class="${n === at ? "here" : ""}">${String(n).padStart(4)}  ${esc(words)}</span>`).join("\n") + "</pre>";
  }
  function linkTo(n) { return `<a href="#" data-go="${n}">${esc(E[n].t)}</a>`; }
  function show(n) {
    selected = n;
    if (n === null) { panel.hidden = true; paint(); return; }
    const e = E[n], chain = [];
    for (let up = e.up; up !== ROOT && up !== undefined; up = E[up].up) chain.unshift(E[up].t);
    let body = `<button class="close" title="Close">×</button><h2>${esc(e.t)}</h2>`;
    if (chain.length) body += `<p class="faint">in ${esc(chain.join(" › "))}</p>`;
    if (isGroup(n)) {
      const turns = e.per ? e.mem.length / e.per : 1;
      body += `<p><button data-act="fold">${opened.has(n) ? "Fold" : "Unfold"}</button>`
        + (e.per ? ` <button data-act="unroll">${unrolled.has(n) ? "Roll up" : "Unroll"}</button>` : "") + ' <button data-act="way">Way to it</button></p>';
      body += "<table>" + row("class", e.kind === "module" ? e.d : "") + row("turns", turns > 1 ? turns : "") + row("ops", insideOf(D, n).length)
        + row("parameters", e.np ? e.np.toLocaleString("en") : "") + row("line", e.w) + "</table>";
    } else {
      body += `<p><button data-act="way">${way ? "All again" : "Way to it"}</button></p>`;
      if (e.m) body += `<p class="bad">${esc(e.m)}</p>`;
      body += "<table>" + row("op", e.op) + row("arguments", e.a) + row("gives", e.y.join(", ")) + row("values", e.v)
        + row("gradient", e.g ? "flows through" : "none") + row("line", e.w) + "</table>";
      for (const note of e.n || []) body += `<p class="faint">${esc(note)}</p>`;
      if (e.p.length) body += "<h4>Parameters</h4><table>" + e.p.map((p) => row(esc(p[0]), p[1] + (p[2] ? "" : ", not learned"))).join("") + "</table>";
      if (e.i.length) body += "<h4>From</h4><p>" + e.i.map(linkTo).join(", ") + "</p>";
      if (users.has(n)) body += "<h4>Used by</h4><p>" + users.get(n).slice(0, 30).map(linkTo).join(", ") + "</p>";
    }
    panel.innerHTML = body + codeOf(e.w);
    panel.hidden = false;
    paint();
  }
  panel.addEventListener("click", (event) => {
    const target = event.target, act = target.dataset.act;
    if (target.classList.contains("close")) show(null);
    else if (target.dataset.go !== undefined) {
      event.preventDefault();
      const n = Number(target.dataset.go);
      centreOn(reveal(n));
      show(n);
    } else if (act === "way") {
      way = way && !isGroup(selected) ? null : wayTo(insideOf(D, selected));
      show(selected);
    } else if (act) { (act === "fold" ? fold : unroll)(selected); show(selected); }
  });

  // ---- mouse, fingers, keys

  const pointers = new Map();
  let moved = false, spread = 0;
  svg.addEventListener("pointerdown", (event) => { pointers.set(event.pointerId, event); moved = false; });
  window.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    if (Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY) > 2) moved = true;
    pointers.set(event.pointerId, event);
    if (pointers.size === 1) {
      camera.x += event.clientX - before.clientX;
      camera.y += event.clientY - before.clientY;
      aim();
    } else {
      const [a, b] = [...pointers.values()], now = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY), box = svg.getBoundingClientRect();
      if (spread) zoom(now / spread, (a.clientX + b.clientX) / 2 - box.left, (a.clientY + b.clientY) / 2 - box.top);
      spread = now;
    }
  });
  for (const name of ["pointerup", "pointercancel"]) window.addEventListener(name, (event) => { pointers.delete(event.pointerId); spread = 0; });
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = svg.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  svg.addEventListener("click", (event) => {
    if (moved) return;
    const toggle = event.target.closest("[data-fold]"), hit = event.target.closest("[data-n]");
    if (toggle) fold(Number(toggle.dataset.fold));
    else show(hit ? Number(hit.dataset.n) : null);
  });
  svg.addEventListener("dblclick", (event) => {
    const hit = event.target.closest("[data-n]");
    if (hit && isGroup(Number(hit.dataset.n))) fold(Number(hit.dataset.n));
  });
  const search = document.getElementById("search"), count = document.getElementById("count");
  let at = 0;
  search.addEventListener("input", () => {
    const words = search.value.trim().toLowerCase();
    const fits = (e) => [e.t, e.op, e.d, e.w, e.a, ...(e.s || []), ...(e.p || []).map((p) => p[0])].some((part) => part && part.toLowerCase().includes(words));
    found = new Set(words ? E.map((e, n) => n).filter((n) => n !== ROOT && fits(E[n])) : []);
    count.textContent = words ? `${found.size} found` : "";
    at = 0;
    paint();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && found.size) {
      const n = [...found][at++ % found.size];
      const box = reveal(n);
      show(n);
      centreOn(layout.boxes.has(n) ? n : box);
    } else if (event.key === "Escape") { search.value = ""; search.dispatchEvent(new Event("input")); search.blur(); }
  });
  const acts = {
    fold: () => { opened.clear(); opened.add(ROOT); draw(); fit(); },
    unfold: () => { for (const n of groups) opened.add(n); draw(); fit(); },
    loops: () => { const all = loops.every((n) => unrolled.has(n)); for (const n of loops) if (all) unrolled.delete(n); else { unrolled.add(n); opened.add(n); } draw(); fit(); },
    gradients: () => { gradients = !gradients; paint(); },
    out: () => zoom(0.8), in: () => zoom(1.25), fit,
  };
  document.getElementById("bar").addEventListener("click", (event) => { const act = acts[event.target.dataset.do]; if (act) act(); });
  if (!loops.length) document.querySelector('[data-do="loops"]').hidden = true;
  window.addEventListener("keydown", (event) => {
    if (event.target === search) return;
    if (event.key === "/") { event.preventDefault(); search.focus(); }
    if (event.key === "Escape") { way = null; show(null); }
    const act = { "+": acts.in, "-": acts.out, 0: fit, g: acts.gradients }[event.key];
    if (act && !event.ctrlKey && !event.metaKey) act();
  });
  window.addEventListener("resize", fit);
  draw();
  fit();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}
