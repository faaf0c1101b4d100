// Drawing a time line

const ROW = 24,
  GAP = 10,
  AXIS = 22,
  FOOT = 18,
  BAR = 0.78,
  LEAST_VIEW = 20,
  MOST_STREAMS = 128;
let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = [
    "ink",
    "soft",
    "line",
    "idle",
    "mark",
    "accent",
    "shade",
    "paper",
    "wait",
    ...KINDS,
    ...KINDS.map(k => "on-" + k),
  ];
  colours = Object.fromEntries(names.map(name => [name, style.getPropertyValue("--" + name).trim()]));
}

/* A canvas as wide as its place, in its pixels. */
function fitted(canvas, height) {
  const ratio = window.devicePixelRatio || 1,
    width = Math.max(200, canvas.parentElement.clientWidth);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = height + "px";
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.textBaseline = "middle";
  return [pen, width];
}

const FONT = "system-ui, 'Segoe UI', Roboto, Arial, sans-serif";
const widths = new Map();
function textWidth(pen, text) {
  const key = pen.font + text;
  if (!widths.has(key)) widths.set(key, pen.measureText(text).width);
  return widths.get(key);
}
function cut(pen, text, room) {
  while (text.length > 1 && textWidth(pen, text) > room)
    text = text.slice(0, Math.ceil(text.length * 0.8) - 1) + "\u2026";
  return text;
}

class Chart {
  /* A time line on a canvas, over a view that several charts may share. */
  constructor(line, view, place) {
    Object.assign(this, {
      line,
      view,
      place,
      hovered: null,
      selected: null,
      chain: new Set(),
      chainOps: [],
      showPath: false,
    });
    this.canvas = place.querySelector("canvas");
    let top = AXIS,
      group = null;
    for (const row of line.rows) {
      if (group !== null && row.group !== group) top += GAP;
      group = row.group;
      row.top = top;
      top += row.height;
    }
    this.height = top + FOOT;
    this.path = line.criticalPath();
  }

  x(ticks) {
    return this.left + (ticks - this.view.from) * this.scale;
  }
  ticks(x) {
    return this.view.from + (x - this.left) / this.scale;
  }

  draw() {
    const [pen, width] = fitted(this.canvas, this.height),
      rows = this.line.rows;
    this.pen = pen;
    pen.font = `12px ${FONT}`;
    const notes = width > 600 ? 48 : 0;
    this.left = Math.ceil(Math.min(width * 0.3, 14 + notes + Math.max(...rows.map(row => textWidth(pen, row.name)))));
    this.right = width - 8;
    this.scale = (this.right - this.left) / (this.view.to - this.view.from);
    this.drawAxis();
    for (const row of rows) this.drawName(row, notes);
    pen.save();
    pen.beginPath();
    pen.rect(this.left, AXIS, this.right - this.left + 1, this.height);
    pen.clip();
    pen.globalAlpha = this.chain.size ? 0.28 : 1;
    for (const row of rows) this.drawRow(row, null);
    pen.globalAlpha = 1;
    if (this.chain.size) {
      for (const row of rows) this.drawRow(row, this.chain);
      this.drawLinks();
    }
    if (this.showPath) this.drawPath();
    this.drawMarks();
    if (this.hovered) this.outline(this.hovered, colours.soft, 1);
    if (this.selected) this.outline(this.selected, colours.mark, 2);
    pen.restore();
  }

  drawAxis() {
    const {pen, view} = this,
      span = view.to - view.from,
      step = niceStep((span * 92) / (this.right - this.left));
    const [unit, places] = unitOf(Math.max(1, view.to)),
      digits = Math.max(0, places - Math.floor(Math.log10(step) + 1e-9));
    pen.fillStyle = colours.soft;
    pen.strokeStyle = colours.line;
    pen.lineWidth = 1;
    pen.textAlign = "center";
    this.labels = [];
    for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
      const x = Math.round(this.x(at)) + 0.5,
        text = (at / 10 ** places).toFixed(digits);
      pen.beginPath();
      pen.moveTo(x, AXIS - 4);
      pen.lineTo(x, this.height - FOOT);
      pen.stroke();
      const half = textWidth(pen, text) / 2;
      if (x + half > this.right - 22) continue;
      pen.fillText(text, Math.max(x, this.left + half), AXIS / 2 - 2);
      this.labels.push(text);
    }
    pen.textAlign = "right";
    pen.fillText(unit, this.right, AXIS / 2 - 2);
  }

  drawName(row, notes) {
    const {pen} = this,
      middle = row.top + row.height / 2;
    pen.textAlign = "left";
    pen.fillStyle = colours.ink;
    pen.fillText(cut(pen, row.name, this.left - notes - 6), 0, middle);
    if (notes && row.note) {
      pen.textAlign = "right";
      pen.fillStyle = colours.soft;
      pen.fillText(row.note, this.left - 8, middle);
    }
    const until = Math.min(this.right, this.x(this.line.until)),
      from = Math.max(this.left, this.x(0));
    pen.fillStyle = colours.idle;
    const height = row.height * BAR;
    if (until > from) pen.fillRect(from, middle - height / 2, until - from, height);
  }

  /* Spans that are wide enough as bars; of narrower ones, for each pixel the share that each kind takes of it. */
  drawRow(row, only) {
    const {pen, line, left, scale} = this,
      {from, to} = this.view,
      [first, last] = row.within(from, to);
    const all = row.height * BAR,
      top = row.top + (row.height - all) / 2,
      lane = all / row.lanes;
    const shares = KINDS.map(() => null),
      width = Math.ceil(this.right - left);
    if (row.group === "stream" && !only) this.drawWaits(row, first, last, top, lane);
    pen.textAlign = "center";
    pen.font = `11px ${FONT}`;
    for (let k = first; k < last; k++) {
      if (row.to[k] < from || (only && !only.has(row.op[k]))) continue;
      const x0 = (row.from[k] - from) * scale,
        x1 = (row.to[k] - from) * scale,
        kind = row.kind[k];
      if (x1 - x0 < 1.5) {
        addShare((shares[kind] ??= new Float32Array(width + 2)), Math.max(0, x0), Math.max(x1, x0 + 0.02));
        continue;
      }
      const a = left + Math.max(x0, -4),
        b = left + Math.min(x1, width + 4),
        y = top + row.lane[k] * lane;
      pen.fillStyle = colours[KINDS[kind]];
      pen.fillRect(a, y, b - a - (b - a > 4 ? 1 : 0), lane - (row.lanes > 1 && lane > 4 ? 1 : 0));
      const seen = Math.min(b, this.right) - Math.max(a, left);
      if (lane >= 10 && seen > 10)
        this.drawLabel(row.op[k], kind, (Math.max(a, left) + Math.min(b, this.right)) / 2, y + lane / 2, seen - 3);
    }
    this.drawShares(shares, top, all, width);
    pen.font = `12px ${FONT}`;
  }

  drawLabel(op, kind, x, y, room) {
    const {pen, line} = this;
    if (op < 0 || !line.number[op]) return;
    const long = line.title(op),
      text = textWidth(pen, long) <= room ? long : String(line.number[op]);
    if (textWidth(pen, text) > room) return;
    pen.fillStyle = colours["on-" + KINDS[kind]];
    pen.fillText(text, x, y + 0.5);
  }

  drawWaits(row, first, last, top, lane) {
    const {pen, line} = this;
    if (line.about.measured) return;
    pen.fillStyle = colours.wait;
    let reached = -1;
    for (let k = first; k < row.from.length; k++) {
      const op = row.op[k],
        ready = line.ready[op];
      if (ready >= row.from[k]) continue;
      if (ready > this.view.to && k >= last) break;
      const a = Math.max(this.x(ready), this.left - 2, reached),
        b = Math.min(this.x(row.from[k]), this.right + 2);
      if (b - a < 0.3) continue;
      pen.fillRect(a, top + (row.lane[k] + 0.5) * lane - 1.5, b - a, 3);
      reached = row.lanes > 1 ? -1 : b;
    }
  }

  /* Stack the shares of each pixel from below, kind by kind; pixels that look alike are one rectangle. */
  drawShares(shares, top, height, width) {
    const {pen, left} = this,
      base = new Float32Array(width).fill(top + height);
    shares.forEach((share, kind) => {
      if (!share) return;
      pen.fillStyle = colours[KINDS[kind]];
      for (let x = 0, begin = 0, lower = 0, upper = 0; x <= width; x++) {
        const now = base[x] ?? 0,
          above = x < width ? Math.max(top, now - Math.min(1, share[x]) * height) : 0;
        if (x > begin && Math.abs(now - lower) + Math.abs(above - upper) < 0.2) {
          base[x] = upper;
          continue;
        }
        if (lower - upper > 0.05) pen.fillRect(left + begin, upper, x - begin, lower - upper);
        [begin, lower, upper] = [x, now, above];
        if (x < width) base[x] = above;
      }
    });
  }

  rowsOf(op) {
    const {line} = this,
      named = (group, name) => line.rows.find(row => row.group === group && row.name === name);
    const engine = line.about.engines.find(([index]) => index === line.engine[op]);
    return [
      engine && named("engine", engine[1]),
      named("stream", line.stream[op] ? `stream ${line.stream[op]}` : "default stream"),
    ];
  }

  /* The critical path, along the lower edge of its bars in the rows of the engines. */
  drawPath() {
    const {pen, line} = this,
      {from, to} = this.view,
      rows = new Map();
    for (const width of [5, 2.5]) {
      pen.beginPath();
      for (const op of this.path) {
        if (line.end[op] < from || line.start[op] > to) continue;
        if (!rows.has(line.engine[op])) rows.set(line.engine[op], this.rowsOf(op)[0]);
        const row = rows.get(line.engine[op]),
          lane = (row.height * BAR) / row.lanes;
        const y = row.top + (row.height * (1 - BAR)) / 2 + (line.lane[op] + 0.86) * lane;
        pen.moveTo(Math.max(this.x(line.start[op]), this.left - 5), y);
        pen.lineTo(Math.min(this.x(line.end[op]), this.right + 5), y);
      }
      pen.strokeStyle = width > 3 ? colours.paper : colours.mark;
      pen.lineWidth = width;
      pen.stroke();
    }
  }

  /* Lines from the end of each op of the chain to the start of the next, between the rows of the engines. */
  drawLinks() {
    const {pen, line} = this;
    pen.beginPath();
    for (let k = 1; k < this.chainOps.length; k++) {
      const [a, b] = [this.chainOps[k - 1], this.chainOps[k]],
        [one, other] = [this.rowsOf(a)[0], this.rowsOf(b)[0]];
      const x0 = this.x(Math.min(line.end[a], line.start[b])),
        x1 = this.x(line.start[b]);
      if (x1 < this.left || x0 > this.right || one === other) continue;
      pen.moveTo(x0, one.top + one.height / 2);
      pen.lineTo(x1, other.top + other.height / 2);
    }
    pen.strokeStyle = colours.mark;
    pen.lineWidth = 1.5;
    pen.stroke();
  }

  drawMarks() {
    const {pen, line} = this,
      {bound, low, high} = line.about,
      foot = this.height - FOOT;
    if (high > 0) {
      pen.fillStyle = colours.shade;
      pen.fillRect(this.x(low), AXIS, Math.max(1, this.x(high) - this.x(low)), foot - AXIS);
    }
    const lines = [
      [bound, "lower bound", [4, 3]],
      [line.about.makespan, "end", []],
    ];
    let free = Infinity;
    for (const [at, words, dash] of lines.reverse()) {
      if (!(at > 0)) continue;
      const x = Math.round(this.x(at)) + 0.5,
        room = textWidth(pen, words);
      pen.strokeStyle = colours.ink;
      pen.lineWidth = 1;
      pen.setLineDash(dash);
      pen.beginPath();
      pen.moveTo(x, AXIS);
      pen.lineTo(x, foot + 3);
      pen.stroke();
      pen.setLineDash([]);
      const right = Math.min(x + room / 2, this.right, free);
      if (x < this.left || x > this.right + 1 || right < x - room) continue;
      pen.textAlign = "right";
      pen.fillStyle = colours.soft;
      pen.fillText(words, right, foot + 10);
      free = right - room - 8;
    }
  }

  outline({op, row, k}, colour, width) {
    const {pen} = this,
      rows = op < 0 || row.group === "host" ? [row] : this.rowsOf(op).filter(Boolean);
    for (const one of rows) {
      const at = one === row ? k : one.op.indexOf(op),
        lane = (one.height * BAR) / one.lanes;
      const x0 = Math.max(this.x(one.from[at]), this.left - 4),
        x1 = Math.min(this.x(one.to[at]), this.right + 4);
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.strokeRect(
        x0 - 1,
        one.top + (one.height * (1 - BAR)) / 2 + one.lane[at] * lane - 1,
        Math.max(2, x1 - x0) + 1,
        lane + 1,
      );
    }
  }

  /* The span at a place of the canvas, within two pixels; null where there is none. */
  hit(x, y) {
    const row = this.line.rows.find(one => y >= one.top && y < one.top + one.height);
    if (!row || x < this.left) return null;
    const at = this.ticks(x),
      near = 2 / this.scale,
      [first, last] = row.within(at - near, at + near);
    const lane = Math.floor((y - row.top - (row.height * (1 - BAR)) / 2) / ((row.height * BAR) / row.lanes));
    let best = null,
      least = Infinity;
    for (let k = first; k < last; k++) {
      if (row.lanes > 1 && row.lane[k] !== Math.min(Math.max(lane, 0), row.lanes - 1)) continue;
      const away = Math.max(row.from[k] - at, at - row.to[k], 0);
      if (away <= near && away < least) {
        least = away;
        best = {op: row.op[k], row, k};
      }
    }
    return best;
  }

  /* Select a span, and of a copy or kernel all that it waited for. */
  select(span) {
    this.selected = span;
    this.chainOps = span && span.row.group !== "host" && !this.line.about.measured ? this.line.chain(span.op) : [];
    this.chain = new Set(this.chainOps);
  }

  /* The span of an op in the row of its engine, or of its call. */
  spanOf(op) {
    const row =
      this.line.engine[op] >= 0
        ? this.rowsOf(op)[0]
        : this.line.rows.find(one => one.group === "host" && one.op.includes(op));
    return row ? {op, row, k: row.op.indexOf(op)} : null;
  }
}

/* The part of each pixel from x0 to x1. */
function addShare(share, x0, x1) {
  for (let x = Math.floor(x0); x < x1 && x < share.length; x++) share[x] += Math.min(x1, x + 1) - Math.max(x0, x);
}
