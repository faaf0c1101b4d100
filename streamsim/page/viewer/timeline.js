// A time line

const KINDS = ["h2d", "kernel", "d2h", "call", "held", "work", "pages", "note", "wait"];
const [, KERNEL, , CALL, , , PAGES, , WAIT] = KINDS.keys();
const [, HOST, STREAM, EVENT, ENGINE] = Array(5).keys();
const COLUMNS = ["name", "kind", "host", "engine", "lane", "stream", "streamLane", "thread", "number", "amount"].concat(
  ["issued", "returned", "ready", "start", "end", "cause", "because"],
);
const HUES = 12;

class TimeLine {
  // `about`: what the page says of it beside its columns. Ops are numbers, as in the schedule.
  constructor(about, columns) {
    Object.assign(this, {about, count: about.ops});
    COLUMNS.forEach((name, k) => (this[name] = columns[k]));
    this.addUp();
    this.rows = this.makeRows();
    this.until = Math.max(1, ...this.rows.map(row => row.until));
    this.rankKernels();
  }

  // Columns are differences; see `streamsim/page/timelines.py`.
  addUp() {
    const ended = new Map(); // by stream, when its last op ends
    for (let op = 0; op < this.count; op++) {
      this.issued[op] += op ? this.issued[op - 1] : 0;
      this.returned[op] += this.issued[op];
      this.ready[op] += Math.max(this.returned[op], ended.get(this.stream[op]) ?? 0);
      const cause = (this.cause[op] = this.cause[op] ? op - this.cause[op] : -1);
      this.start[op] += this.because[op] === ENGINE && cause >= 0 && cause < op ? this.end[cause] : this.ready[op];
      this.end[op] += this.start[op];
      if (this.engine[op] >= 0 && this.kind[op] < PAGES) ended.set(this.stream[op], this.end[op]);
    }
  }

  makeRows() {
    const threads = [...new Set(this.thread)].sort((a, b) => a - b),
      hosts = new Map(threads.map(one => [one, new Row(threads.length > 1 ? `host thread ${one}` : "host", "host")])),
      shares = this.about.engines.map(([, , busy]) => `${(100 * busy).toFixed(0 < busy && busy < 0.1 ? 1 : 0)} %`),
      engines = new Map(this.about.engines.map(([index, name], k) => [index, new Row(name, "engine", shares[k])])),
      streams = new Map();
    if (this.about.launch > 0) hosts.get(threads[0]).add(-1, CALL, 0, 0, this.about.launch);
    for (let op = 0; op < this.count; op++) {
      if (this.host[op]) hosts.get(this.thread[op]).add(op, this.host[op], 0, this.issued[op], this.returned[op]);
      if (this.engine[op] < 0) continue;
      const place = [this.start[op], this.end[op]],
        stream = this.stream[op];
      engines.get(this.engine[op]).add(op, this.kind[op], this.lane[op], ...place);
      if (this.kind[op] >= PAGES) continue;
      if (!streams.has(stream)) streams.set(stream, new Row(streamName(stream), "stream"));
      streams.get(stream).add(op, this.kind[op], this.streamLane[op], ...place);
    }
    Object.assign(this, {hosts, engines, streams});
    if (this.about.thin) return [this.together()];
    const inOrder = [...streams.keys()].sort((a, b) => a - b).map(stream => streams.get(stream)),
      hidden = inOrder.length - MOST_STREAMS,
      used = [...hosts.values()].filter(row => row.items.length);
    if (hidden > 0) inOrder.splice(MOST_STREAMS, hidden, new Row(`${hidden} more`, "stream"));
    return [...used, ...engines.values(), ...inOrder].map(row => row.done());
  }

  // One thin row of what all engines do.
  together() {
    const row = new Row("all engines", "engine");
    row.items = [...this.engines.values()].flatMap(one => one.items);
    for (const index of this.engines.keys()) this.engines.set(index, row);
    return row.done();
  }

  // By name of a kernel its colour: the kernels that take the most time have neighbouring numbers.
  rankKernels() {
    const took = new Map();
    this.named = KINDS.map(() => new Set()); // by kind, the names of its ops
    for (let op = 0; op < this.count; op++) {
      this.named[this.kind[op]].add(this.name[op]);
      took.set(this.name[op], (took.get(this.name[op]) ?? 0) + this.end[op] - this.start[op]);
    }
    const ranked = [...this.named[KERNEL]].sort((a, b) => took.get(b) - took.get(a));
    this.hue = new Map(ranked.map((name, k) => [name, WAIT + 1 + (k % HUES)]));
  }

  title(op, named = name => name) {
    if (op < 0) return "launch of the graph";
    const name = named(this.about.names[this.name[op]]);
    return this.number[op] ? `${name} ${this.number[op]}` : name;
  }

  // The span of an op in the row of its engine, or of its call.
  spanOf(op, group = "engine") {
    const onCard = group === "engine" && this.engine[op] >= 0,
      row = onCard ? this.engines.get(this.engine[op]) : this.host[op] ? this.hosts.get(this.thread[op]) : null,
      k = row?.op?.indexOf(op) ?? -1;
    return k < 0 ? null : {op, row, k};
  }

  // The ops that `op` waited for, one after the other: `op` last.
  chain(op) {
    const found = [];
    for (; op >= 0 && found.length <= this.count; op = this.cause[op]) found.push(op);
    return found.reverse();
  }

  // The chain of the copy or kernel that ends last.
  criticalPath() {
    let last = -1;
    for (let op = 0; op < this.count; op++)
      if (this.engine[op] >= 0 && (last < 0 || this.end[op] >= this.end[last])) last = op;
    return this.about.measured ? [] : this.chain(last);
  }
}

const streamName = stream => (stream ? `stream ${stream}` : "default stream");

// The name of a C++ function without its type, namespaces and arguments.
function plain(name) {
  const bare = name.replace(/^void |\(anonymous namespace\)::/g, "").replace(/[<(].*$/s, "");
  return bare.replace(/^.*::/s, "") || name;
}

// Spans side by side: columns sorted by their beginning. `reach[k]`: the latest end of the first k + 1 of them.
class Row {
  constructor(name, group, note = "") {
    Object.assign(this, {name, note, group, lanes: 1, items: []});
  }
  add(op, kind, lane, from, to) {
    this.items.push([from, to, op, kind, lane]);
    this.lanes = Math.max(this.lanes, lane + 1);
  }
  done() {
    const items = this.items.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    ["from", "to", "op", "kind", "lane"].forEach((name, k) => (this[name] = Float64Array.from(items, item => item[k])));
    let reach = 0;
    this.reach = this.to.map(to => (reach = Math.max(reach, to)));
    this.until = reach;
    this.height = Math.max(1, Math.min(this.lanes, 8) * 0.6) * ROW;
    this.bar = (this.height * BAR) / this.lanes;
    delete this.items;
    return this;
  }
  // From which span to which one, exclusive, anything may lie in this time.
  within(from, to) {
    return [firstOver(this.reach, from), firstOver(this.from, to)];
  }
  // The upper edge of a lane's bars.
  at(lane) {
    return this.top + (this.height * (1 - BAR)) / 2 + lane * this.bar;
  }
}

// The first index of an ascending column whose value is over this.
function firstOver(column, value) {
  let low = 0,
    high = column.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}
