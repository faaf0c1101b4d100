// What is told of an op

function made(tag, text, className = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  element.className = className;
  return element;
}
function pressed(text, action) {
  const button = made("button", text);
  button.onclick = action;
  return button;
}

// A table with a head for each column and each row; a cell is a text or an element.
function tableOf(caption, heads, rows) {
  const table = document.createElement("table"),
    body = table.createTBody(),
    headed = (row, scope, text) => {
      const cell = made("th", text);
      cell.scope = scope;
      row.append(cell);
    };
  table.append(made("caption", caption));
  for (const text of heads.length ? [table.createTHead().insertRow()] : [])
    for (const head of heads) headed(text, "col", head);
  for (const [head, ...cells] of rows) {
    const row = body.insertRow();
    headed(row, "row", "");
    row.cells[0].append(head);
    for (const one of cells) row.insertCell().append(one);
  }
  return table;
}

// Paragraphs in a box beside the pointer; none hides it.
function showTip(tip, found, x, y) {
  tip.hidden = !found;
  if (!found) return;
  tip.replaceChildren(...found);
  tip.style.left = Math.max(0, Math.min(x + 14, tip.parentElement.clientWidth - tip.offsetWidth - 4)) + "px";
  tip.style.top = y + 18 + "px";
}

function where(line, op) {
  const engine = line.about.engines.find(([index]) => index === line.engine[op]);
  if (line.kind[op] >= PAGES) return engine[1];
  const stream = line.stream[op] < 0 ? "host" : streamName(line.stream[op]);
  return engine ? `${stream}, ${engine[1]} engine` : stream;
}

// Of a call what it issued, of what was issued its call.
function otherSpan(line, span) {
  if (!span || span.op < 0 || line.engine[span.op] < 0) return null;
  return line.spanOf(span.op, span.row.group === "host" ? "engine" : "host");
}

// Paragraphs on a span: what it is, where, when, how long, how much, and why it waited.
function about(line, {op, row, k}) {
  const [from, to] = [row.from[k], row.to[k]],
    isCall = row.group === "host",
    isWork = op >= 0 && !isCall && line.kind[op] < PAGES,
    title = isCall && line.engine[op] >= 0 ? `call that issues ${line.title(op)}` : line.title(op),
    place = isCall ? row.name : isWork ? `${where(line, op)}, op ${op}` : where(line, op),
    said = isWork ? [amountOf(line, op), why(line, op)] : isCall ? [window.streamsim.data.kinds[row.kind[k]]] : [],
    words = [`${exact(from)} to ${exact(to)}: ${exact(to - from)}`, ...said.filter(Boolean)];
  return [made("b", title), made("p", place, "soft"), ...words.map(text => made("p", text))];
}

function amountOf(line, op) {
  const amount = line.amount[op];
  if (line.kind[op] === KERNEL) return amount ? `${amount} elements` : "";
  return `${bytes(amount)}, ${(amount / Math.max(1, line.end[op] - line.start[op])).toPrecision(4)} GB/s`;
}

// Why an op began no earlier.
function why(line, op) {
  if (line.about.measured) return "A measured time line does not know why an op waited.";
  const cause = line.cause[op],
    before = cause < 0 ? "" : `${line.title(cause)} (${where(line, cause)})`,
    ended = cause < 0 ? "" : `, which ended at ${exact(line.end[cause])}`,
    late = `It was ready at ${exact(line.ready[op])} and waited ${exact(line.start[op] - line.ready[op])}`;
  switch (line.because[op]) {
    case ENGINE:
      return line.start[cause] === line.start[op]
        ? `${late}: ${before} was ahead of it in its hardware queue.`
        : `${late} for its engine: ${before} was there until ${exact(line.end[cause])}.`;
    case STREAM:
      return `It waited for its stream: ${before} is before it${ended}.`;
    case EVENT:
      return `It waited for another stream, through an event or the default stream: for ${before}${ended}.`;
    case HOST:
      return cause < 0
        ? `It waited for the host, whose call returned at ${exact(line.returned[op])}.`
        : `It waited for the host, which first waited for ${before}${ended}.`;
    default:
      return "It waited for nothing.";
  }
}

// A hundred ops from `first` on. `follow` is called with an op whose number is pressed.
function opsTable(line, first, follow) {
  const heads = ["op", "what", "where", "issued", "ready", "start", "end", "time", "why it began no earlier"],
    last = Math.min(first + 100, line.count),
    rows = Array.from({length: last - first}, (_, k) => {
      const op = first + k,
        on = line.engine[op] >= 0,
        isWork = line.kind[op] < PAGES,
        times = [line.start[op], line.end[op], line.end[op] - line.start[op]];
      return [
        pressed(op, () => follow(op)),
        line.title(op),
        where(line, op),
        isWork ? exact(line.issued[op]) : "",
        on && !line.about.measured ? exact(line.ready[op]) : "",
        ...times.map(ticks => (on ? exact(ticks) : "")),
        on && isWork ? why(line, op) : "",
      ];
    });
  return tableOf(`ops ${first} to ${last - 1} of ${line.count}`, heads, rows);
}
