// What is told of an op

function made(tag, text, className = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  element.className = className;
  return element;
}

/* A name that fits on a line: its beginning and its end. */
function shortened(text) {
  return text.length > 70 ? `${text.slice(0, 50)}\u2026${text.slice(-19)}` : text;
}

function where(line, op) {
  const engine = line.about.engines.find(([index]) => index === line.engine[op]);
  if (line.kind[op] === PAGES) return "unified memory";
  const stream = line.stream[op] < 0 ? "host" : line.stream[op] ? `stream ${line.stream[op]}` : "default stream";
  return engine ? `${stream}, ${engine[1]} engine` : stream;
}

/* Paragraphs on a span: what it is, where, when, how long, how much, and why it waited. */
function about(line, {op, row, k}) {
  const from = row.from[k],
    to = row.to[k],
    times = made("p", `${exact(from)} to ${exact(to)}: ${exact(to - from)}`);
  if (op < 0) return [made("b", line.title(op)), times];
  if (row.group === "host") {
    const held = line.host[op] === HELD ? "This call may hold its thread until work is done." : "A call of the host.";
    return [
      made("b", line.engine[op] >= 0 ? `call that issues ${line.title(op)}` : line.title(op)),
      made("p", row.name, "soft"),
      times,
      made("p", held),
    ];
  }
  if (line.kind[op] === PAGES) return [made("b", line.title(op)), made("p", where(line, op), "soft"), times];
  const found = [made("b", line.title(op)), made("p", `${where(line, op)}, op ${op}`, "soft"), times];
  if (line.kind[op] !== 1)
    found.push(
      made("p", `${bytes(line.amount[op])}, ${(line.amount[op] / Math.max(1, to - from)).toPrecision(4)} GB/s`),
    );
  else if (line.amount[op]) found.push(made("p", `${line.amount[op]} elements`));
  return [...found, made("p", why(line, op), "why")];
}

/* Why an op began no earlier. */
function why(line, op) {
  if (line.about.measured) return "A measured time line does not know why an op waited.";
  const cause = line.cause[op],
    before = cause < 0 ? "" : `${line.title(cause)} (${where(line, cause)})`;
  const ended = cause < 0 ? "" : `, which ended at ${exact(line.end[cause])}`;
  const late = `It was ready at ${exact(line.ready[op])} and waited ${exact(line.start[op] - line.ready[op])}`;
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

function opsTable(line, first) {
  const heads = ["op", "what", "where", "issued", "ready", "start", "end", "time", "why it began no earlier"],
    table = document.createElement("table");
  const last = Math.min(first + 100, line.count);
  table.append(made("caption", `ops ${first} to ${last - 1} of ${line.count}`));
  const head = table.createTHead().insertRow();
  for (const words of heads) {
    const cell = made("th", words);
    cell.scope = "col";
    head.append(cell);
  }
  const body = table.createTBody();
  for (let op = first; op < last; op++) {
    const row = body.insertRow(),
      on = line.engine[op] >= 0,
      ready = on && !line.about.measured;
    const texts = [
      op,
      line.title(op),
      where(line, op),
      line.kind[op] === PAGES ? "" : exact(line.issued[op]),
      ready ? exact(line.ready[op]) : "",
      on ? exact(line.start[op]) : "",
      on ? exact(line.end[op]) : "",
      on ? exact(line.end[op] - line.start[op]) : "",
      on && line.kind[op] !== PAGES ? why(line, op) : "",
    ];
    texts.forEach((text, k) => row.append(made("td", text, (k >= 3 && k < 8) || !k ? "number" : "")));
  }
  return table;
}
