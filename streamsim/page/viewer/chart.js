// Drawing a time line

const ROW = 24,
  GAP = 10,
  AXIS = 22,
  FOOT = 18,
  BAR = 0.78,
  LEAST_VIEW = 20,
  LEAST_BAR = 2.5, // in pixels: of narrower spans, shares are drawn
  MOST_STREAMS = 128;
let colours = {}, // of words and lines by name; `bars` and the `inks` on them by number
  bars = [],
  inks = [];

function readColours() {
  const style = getComputedStyle(document.documentElement),
    read = name => style.getPropertyValue(`--${name}`).trim();
  const names = ["ink", "soft", "line", "idle", "mark", "shade", "paper"];
  colours = Object.fromEntries(names.map(name => [name, read(name)]));
  const hues = Array.from({length: HUES}, (_, k) => `oklch(0.6 0.14 ${(60 + 137.5 * k) % 360})`);
  bars = [...KINDS.map(read), ...hues];
  inks = [...KINDS.map(kind => read(`on-${kind}`)), ...hues.map(() => "#000")];
}

// A canvas as wide as its place, in its pixels.
function fitted(canvas, height) {
  const ratio = window.devicePixelRatio || 1,
    width = Math.max(200, canvas.parentElement.clientWidth);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.aspectRatio = `${width} / ${height}`;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.textBaseline = "middle";
  return [pen, width];
}

const FONT = "system-ui, 'Segoe UI', Roboto, Arial, sans-serif";
const textWidth = (pen, text) => pen.measureText(text).width;
// As many letters as fit.
function cut(pen, text, room) {
  if (textWidth(pen, text) <= room) return text;
  let letters = Math.ceil((text.length * room) / textWidth(pen, text));
  while (letters > 0 && textWidth(pen, text.slice(0, letters) + "\u2026") > room) letters--;
  return letters > 2 ? text.slice(0, letters) + "\u2026" : "";
}

class Chart {
  // A time line on a canvas, over a view that several charts may share.
  constructor(line, view, place) {
    Object.assign(this, {line, view, place, hovered: null, selected: null, chain: new Set(), chainOps: []});
    this.canvas = place.querySelector("canvas");
    let top = AXIS;
    line.rows.forEach((row, k) => {
      if (k && row.group !== line.rows[k - 1].group) top += GAP;
      row.top = top;
      top += row.height;
    });
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
    const notes = width > 600 ? 48 : 0,
      names = this.view.charts.flatMap(({line}) => line.rows.map(row => textWidth(pen, row.name)));
    this.left = Math.ceil(Math.min(width * 0.3, 14 + notes + Math.max(...names)));
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
    if (this.chain.size) for (const row of rows) this.drawRow(row, this.chain);
    if (this.view.path) this.drawPath();
    this.drawMarks();
    if (this.hovered) this.outline(this.hovered, colours.soft, 1);
    if (this.selected) this.outline(this.selected, colours.mark, 2);
    pen.restore();
  }

  stroke(colour, width, points) {
    const {pen} = this;
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.beginPath();
    for (const [x0, y0, x1, y1] of points) {
      pen.moveTo(x0, y0);
      pen.lineTo(x1, y1);
    }
    pen.stroke();
  }
  write(text, align, colour, x, y) {
    Object.assign(this.pen, {textAlign: align, fillStyle: colour});
    this.pen.fillText(text, x, y);
  }

  drawAxis() {
    const {pen, view} = this,
      step = niceStep(((view.to - view.from) * 92) / (this.right - this.left)),
      [unit, places] = unitOf(Math.max(1, view.to)),
      digits = Math.max(0, places - Math.floor(Math.log10(step) + 1e-9));
    this.labels = [];
    for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
      const x = Math.round(this.x(at)) + 0.5,
        text = (at / 10 ** places).toFixed(digits),
        half = textWidth(pen, text) / 2;
      this.stroke(colours.line, 1, [[x, AXIS - 4, x, this.height - FOOT]]);
      if (x + half > this.right - 22) continue;
      this.write(text, "center", colours.soft, Math.max(x, this.left + half), AXIS / 2 - 2);
      this.labels.push(text);
    }
    this.write(unit, "right", colours.soft, this.right, AXIS / 2 - 2);
  }

  drawName(row, notes) {
    const {pen} = this,
      middle = row.top + row.height / 2,
      until = Math.min(this.right, this.x(this.line.until)),
      from = Math.max(this.left, this.x(0));
    this.write(cut(pen, row.name, this.left - notes - 6), "left", colours.ink, 0, middle);
    if (notes) this.write(row.note, "right", colours.soft, this.left - 8, middle);
    pen.fillStyle = colours.idle;
    if (until > from) pen.fillRect(from, row.at(0), until - from, row.height * BAR);
  }

  // Spans that are wide enough as bars; of narrower ones, for each pixel the share that each colour takes of it.
  drawRow(row, only) {
    const {pen, line, left, scale} = this,
      {from, to} = this.view,
      [first, last] = row.within(from, to),
      shares = [],
      width = Math.ceil(this.right - left);
    if (row.group === "stream" && !only) this.drawWaits(row, first, last);
    pen.font = `11px ${FONT}`;
    for (let k = first; k < last; k++) {
      if (row.to[k] < from || (only && !only.has(row.op[k]))) continue;
      const x0 = (row.from[k] - from) * scale,
        x1 = (row.to[k] - from) * scale,
        byName = this.view.names && row.kind[k] === KERNEL,
        paint = byName ? line.hue.get(line.name[row.op[k]]) : row.kind[k];
      if (x1 - x0 < LEAST_BAR) {
        addShare((shares[paint] ??= new Float32Array(width + 2)), Math.max(0, x0), Math.max(x1, x0 + 0.02));
        continue;
      }
      const a = left + Math.max(x0, -4),
        b = left + Math.min(x1, width + 4),
        y = row.at(row.lane[k]),
        seen = [Math.max(a, left), Math.min(b, this.right)];
      pen.fillStyle = bars[paint];
      pen.fillRect(a, y, b - a - (b - a > 4 ? 1 : 0), row.bar - (row.lanes > 1 && row.bar > 4 ? 1 : 0));
      if (row.bar >= 10 && seen[1] - seen[0] > 10 && row.op[k] >= 0)
        this.drawLabel(row.op[k], inks[paint], ...seen, y + row.bar / 2);
    }
    this.drawShares(shares, row.at(0), row.height * BAR, width);
    pen.font = `12px ${FONT}`;
  }

  // The name of an op, cut to fit; if all ops of its kind have one name, rather its number alone.
  drawLabel(op, ink, left, right, y) {
    const {pen, line} = this,
      room = right - left - 4,
      title = line.title(op, plain),
      isShort = line.named[line.kind[op]].size === 1 && line.number[op] && textWidth(pen, title) > room;
    const text = cut(pen, isShort ? String(line.number[op]) : title, room);
    this.write(text, "center", ink, (left + right) / 2, y + 0.5);
  }

  drawWaits(row, first, last) {
    const {pen, line} = this;
    if (line.about.measured) return;
    pen.fillStyle = bars[WAIT];
    for (let k = first; k < row.from.length; k++) {
      const ready = line.ready[row.op[k]];
      if (ready >= row.from[k]) continue;
      if (ready > this.view.to && k >= last) break;
      const a = Math.max(this.x(ready), this.left - 2),
        b = Math.min(this.x(row.from[k]), this.right + 2);
      if (b - a >= 0.3) pen.fillRect(a, row.at(row.lane[k] + 0.5) - 1.5, b - a, 3);
    }
  }

  // Stack the shares of each pixel from below, colour by colour; equal neighbours are one rectangle.
  drawShares(shares, top, height, width) {
    const {pen, left} = this,
      base = new Float32Array(width).fill(top + height);
    shares.forEach((share, paint) => {
      pen.fillStyle = bars[paint];
      for (let x = 0, begin = 0, lower = 0, upper = 0; x <= width; x++) {
        const now = base[x] ?? 0,
          above = x < width ? Math.fround(Math.max(top, now - Math.min(1, share[x]) * height)) : -1;
        if (x < width) base[x] = above;
        if (now === lower && above === upper) continue;
        if (lower > upper) pen.fillRect(left + begin, upper, x - begin, lower - upper);
        [begin, lower, upper] = [x, now, above];
      }
    });
  }

  // The critical path, along the lower edge of its bars in the rows of the engines.
  drawPath() {
    const {line} = this,
      {from, to} = this.view,
      seen = this.path.filter(op => line.engine[op] >= 0 && line.end[op] >= from && line.start[op] <= to);
    const points = seen.map(op => {
      const y = line.engines.get(line.engine[op]).at(line.lane[op] + 0.86);
      return [Math.max(this.x(line.start[op]), this.left - 5), y, Math.min(this.x(line.end[op]), this.right + 5), y];
    });
    this.stroke(colours.paper, 5, points);
    this.stroke(colours.mark, 2.5, points);
  }

  drawMarks() {
    const {pen, line} = this,
      {bound, low, high, makespan} = line.about,
      foot = this.height - FOOT;
    pen.fillStyle = colours.shade;
    if (high > 0) pen.fillRect(this.x(low), AXIS, Math.max(1, this.x(high) - this.x(low)), foot - AXIS);
    let free = this.right;
    for (const [at, words, dash] of [[makespan, "end", []], [bound, "lower bound", [4, 3]]]) {
      const x = Math.round(this.x(at)) + 0.5,
        room = textWidth(pen, words),
        right = Math.min(x + room / 2, free);
      if (!at || x < this.left || x > this.right + 1) continue;
      pen.setLineDash(dash);
      this.stroke(colours.ink, 1, [[x, AXIS, x, foot + 3]]);
      pen.setLineDash([]);
      if (right < x - room) continue;
      this.write(words, "right", colours.soft, right, foot + 10);
      free = right - room - 8;
    }
  }

  // Draw a frame round an op in each row that has it.
  outline({op}, colour, width) {
    Object.assign(this.pen, {strokeStyle: colour, lineWidth: width});
    for (const row of this.line.rows) {
      const k = row.op.indexOf(op),
        x0 = Math.max(this.x(row.from[k]), this.left - 4),
        x1 = Math.min(this.x(row.to[k]), this.right + 4);
      if (k >= 0) this.pen.strokeRect(x0 - 1, row.at(row.lane[k]) - 1, Math.max(2, x1 - x0) + 1, row.bar + 1);
    }
  }

  // The span at a place of the canvas, within two pixels; null where there is none.
  hit(x, y) {
    const row = this.line.rows.find(one => y >= one.top && y < one.top + one.height);
    if (!row || x < this.left) return null;
    const at = this.ticks(x),
      near = 2 / this.scale,
      [first, last] = row.within(at - near, at + near),
      lane = Math.min(Math.max(Math.floor((y - row.at(0)) / row.bar), 0), row.lanes - 1);
    let best = null,
      least = Infinity;
    for (let k = first; k < last; k++) {
      const away = Math.max(row.from[k] - at, at - row.to[k], 0);
      if (row.lane[k] !== lane || away > near || away >= least) continue;
      least = away;
      best = {op: row.op[k], row, k};
    }
    return best;
  }

  // Select a span, and of a copy or kernel all that it waited for.
  select(span) {
    this.selected = span;
    this.chainOps = span && span.row.group !== "host" && !this.line.about.measured ? this.line.chain(span.op) : [];
    this.chain = new Set(this.chainOps);
  }
}

// The part of each pixel from x0 to x1.
function addShare(share, x0, x1) {
  for (let x = Math.floor(x0); x < x1 && x < share.length; x++) share[x] += Math.min(x1, x + 1) - Math.max(x0, x);
}
