// A time line

const KINDS = ["h2d", "kernel", "d2h", "call", "held", "pages"];
const KIND_WORDS = {
  h2d: "H2D",
  kernel: "kernel",
  d2h: "D2H",
  call: "host call",
  held: "host waits",
  pages: "unified memory",
  wait: "ready, engine busy",
};
const CALL = 3,
  HELD = 4,
  PAGES = 5,
  START = 0,
  HOST = 1,
  STREAM = 2,
  EVENT = 3,
  ENGINE = 4;

class TimeLine {
  /* `about`: what the page says of it beside its columns. Ops are numbers, as in the schedule. */
  constructor(about, columns) {
    this.about = about;
    this.count = about.ops;
    [
      this.name,
      this.kind,
      this.host,
      this.engine,
      this.lane,
      this.stream,
      this.streamLane,
      this.thread,
      this.number,
      this.amount,
      this.issued,
      this.returned,
      this.ready,
      this.start,
      this.end,
      this.cause,
      this.because,
    ] = columns;
    this.addUp();
    this.rows = this.makeRows();
    this.until = Math.max(1, ...this.rows.map(row => row.until));
  }

  /* Columns are differences; see `streamsim/page/timelines.py`. */
  addUp() {
    const ended = new Map(),
      amounts = new Map(); // by stream, when its last op ends; by kind, the last one's amount
    for (let op = 0; op < this.count; op++) {
      this.issued[op] += op ? this.issued[op - 1] : 0;
      this.returned[op] += this.issued[op];
      amounts.set(this.kind[op], (this.amount[op] += amounts.get(this.kind[op]) ?? 0));
      this.ready[op] += Math.max(this.returned[op], ended.get(this.stream[op]) ?? 0);
      const cause = (this.cause[op] = this.cause[op] ? op - this.cause[op] : -1);
      this.start[op] += this.because[op] === ENGINE && cause >= 0 && cause < op ? this.end[cause] : this.ready[op];
      this.end[op] += this.start[op];
      if (this.engine[op] >= 0 && this.kind[op] !== PAGES) ended.set(this.stream[op], this.end[op]);
    }
  }

  makeRows() {
    const host = [],
      threads = [...new Set(this.thread)].sort((a, b) => a - b);
    for (const thread of threads) {
      const row = new Row(threads.length > 1 ? `host thread ${thread}` : "host", "", "host");
      if (this.about.launch > 0 && thread === threads[0]) row.add(-1, CALL, 0, 0, this.about.launch);
      for (let op = 0; op < this.count; op++)
        if (this.host[op] && this.thread[op] === thread)
          row.add(op, this.host[op], 0, this.issued[op], this.returned[op]);
      host.push(row);
    }
    const engines = this.about.engines.map(
      ([, name, busy]) => new Row(name, `${(100 * busy).toFixed(0 < busy && busy < 0.1 ? 1 : 0)} %`, "engine"),
    );
    const rowOf = new Map(this.about.engines.map(([index], k) => [index, engines[k]])),
      streams = new Map();
    for (let op = 0; op < this.count; op++) {
      const stream = this.stream[op];
      if (this.engine[op] < 0) continue;
      rowOf.get(this.engine[op]).add(op, this.kind[op], this.lane[op], this.start[op], this.end[op]);
      if (this.kind[op] === PAGES) continue;
      if (!streams.has(stream))
        streams.set(stream, new Row(stream ? `stream ${stream}` : "default stream", "", "stream"));
      streams.get(stream).add(op, this.kind[op], this.streamLane[op], this.start[op], this.end[op]);
    }
    const inOrder = [...streams.keys()].sort((a, b) => a - b).map(stream => streams.get(stream)),
      hidden = inOrder.length - MOST_STREAMS;
    const rows = [...host, ...engines, ...inOrder.slice(0, MOST_STREAMS)].filter(
      row => row.items.length || row.group === "engine",
    );
    if (hidden > 0) rows.push(new Row(`${hidden} more`, "", "stream"));
    return rows.map(row => row.done());
  }

  title(op) {
    if (op < 0) return "launch of the graph";
    const name = this.about.names[this.name[op]];
    return this.number[op] ? `${name} ${this.number[op]}` : name;
  }

  /* The ops that `op` waited for, one after the other: `op` last. */
  chain(op) {
    const found = [];
    for (; op >= 0 && found.length <= this.count; op = this.cause[op]) found.push(op);
    return found.reverse();
  }

  /* The chain of the copy or kernel that ends last. */
  criticalPath() {
    let last = -1;
    for (let op = 0; op < this.count; op++)
      if (this.engine[op] >= 0 && (last < 0 || this.end[op] >= this.end[last])) last = op;
    return this.about.measured ? [] : this.chain(last);
  }
}

/* Spans side by side: columns sorted by their beginning. `reach[k]`: the latest end of the first k + 1 of them. */
class Row {
  constructor(name, note, group) {
    Object.assign(this, {name, note, group, lanes: 1, items: []});
  }
  add(op, kind, lane, from, to) {
    this.items.push([from, to, op, kind, lane]);
    this.lanes = Math.max(this.lanes, lane + 1);
  }
  done() {
    const items = this.items.sort((a, b) => a[0] - b[0] || a[1] - b[1]),
      column = k => Float64Array.from(items, item => item[k]);
    [this.from, this.to, this.op, this.kind, this.lane] = [0, 1, 2, 3, 4].map(column);
    let reach = 0;
    this.reach = this.to.map(to => (reach = Math.max(reach, to)));
    this.until = reach;
    this.height = Math.max(1, Math.min(this.lanes, 8) * 0.5) * ROW;
    delete this.items;
    return this;
  }
  /* From which span to which one, exclusive, anything may lie in this time. */
  within(from, to) {
    return [firstOver(this.reach, from), firstOver(this.from, to)];
  }
}

/* The first index of an ascending column whose value is over this. */
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
