// The map: rows of a sweep or a search as cells of a table, the shortest of all rows that share a cell

const VIRIDIS = "#FDE725 #B5DE2B #6ECE58 #35B779 #1F9E89 #26828E #31688E #3E4989 #482878 #440154".split(" ");
const CLIPPED = 1.5, // times the best: cells from there on have the last colour
  MOST_NUMBERED = 32, // columns with room for a number in each cell
  SIDES = {Top: [0, 1], Right: [1, 0], Bottom: [0, -1], Left: [-1, 0]},
  STEPS = {ArrowUp: [0, 1], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowLeft: [-1, 0]};

class HeatMap {
  // `columns`: what varies, each with the texts of its values; `index[c][row]`: which of them; `ticks`: how long.
  constructor(place, about, columns) {
    Object.assign(this, {place, about, index: columns.slice(0, -1), ticks: columns.at(-1), chosen: about.first});
    this.told = place.querySelector(".told");
    this.axes = about.axes.slice();
    this.lists = ["axis", "held"].map(kind => [...place.querySelectorAll(`[data-${kind}]`)]);
    for (const list of this.lists.flat()) list.onchange = () => this.pivot();
  }

  // Read the lists: the axes can be any two columns, and what varies beside them can be held.
  read() {
    const [axes, held] = this.lists,
      [x, y] = axes.map(list => list.selectedIndex);
    this.axes = x === y ? [this.axes[1], this.axes[0]] : [x, y];
    axes.forEach((list, k) => (list.selectedIndex = this.axes[k]));
    held.forEach((list, k) => (list.parentElement.hidden = this.axes.includes(k)));
    this.fixed = held.map((list, k) => (this.axes.includes(k) ? -1 : list.selectedIndex - 1)); // -1: the best of all
  }

  // Fill each cell with its shortest row. The cell that was chosen stays so, or the best one is.
  pivot() {
    this.read();
    const [x, y] = this.axes,
      {columns} = this.about;
    [this.across, this.up] = [columns[x].texts, columns[y].texts];
    this.cells = new Float64Array(this.across.length * this.up.length).fill(-1);
    this.best = -1;
    for (let row = 0; row < this.ticks.length; row++) {
      if (this.fixed.some((value, k) => value >= 0 && this.index[k][row] !== value)) continue;
      const cell = this.index[x][row] + this.index[y][row] * this.across.length,
        now = this.cells[cell];
      if (now < 0 || this.ticks[row] < this.ticks[now]) this.cells[cell] = row;
      if (this.best < 0 || this.ticks[row] < this.ticks[this.best]) this.best = row;
    }
    this.fillHoles();
    this.draw();
    const kept = this.chosen === null ? -1 : this.rowAt(...this.placeOf(this.chosen));
    return this.choose({row: kept < 0 ? this.best : this.cells.includes(this.chosen) ? this.chosen : kept});
  }

  // A cell without a program of its own is a part of its neighbour at the left, or else of that below.
  fillHoles() {
    const {cells} = this,
      wide = this.across.length;
    for (let k = 0; k < cells.length; k++) if (cells[k] < 0 && k % wide) cells[k] = cells[k - 1];
    for (let k = wide; k < cells.length; k++) if (cells[k] < 0) cells[k] = cells[k - wide];
  }

  placeOf(row) {
    return this.axes.map(axis => this.index[axis][row]);
  }
  rowAt(x, y) {
    const isIn = x >= 0 && y >= 0 && x < this.across.length && y < this.up.length;
    return isIn ? this.cells[x + y * this.across.length] : -1;
  }
  within(row, percent) {
    return row >= 0 && this.ticks[row] * 100 <= this.ticks[this.best] * (100 + percent);
  }

  draw() {
    const [x, y] = this.axes.map(axis => this.about.columns[axis].name),
      most = this.cells.reduce((longest, row) => Math.max(longest, row < 0 ? 0 : this.ticks[row]), 1),
      numbered = this.across.length <= MOST_NUMBERED,
      [unit, places] = unitOf(most),
      number = row => (row < 0 || !numbered ? "" : (this.ticks[row] / 10 ** places).toPrecision(3));
    const rows = this.up.map((text, at) => [text, ...this.across.map((_, k) => number(this.rowAt(k, at)))]).reverse(),
      table = tableOf("", [`${y} \u2191 ${x} \u2192`, ...this.across], rows);
    table.setAttribute("role", "grid");
    table.classList.toggle("numbered", numbered);
    [...table.tBodies[0].rows].reverse().forEach((row, at) => {
      for (let k = 0; k < this.across.length; k++) this.dress(row.cells[k + 1], k, at);
    });
    this.place.querySelector(".grid").replaceChildren(table);
    this.scale(numbered ? `; numbers in ${unit}` : "");
  }

  // Colour a cell, and draw a line where it is within 1 or 5 % of the best and its neighbour is not.
  dress(cell, x, y) {
    const row = this.rowAt(x, y);
    if (row < 0) return;
    const share = Math.min(1, Math.log(this.ticks[row] / this.ticks[this.best] || 1) / Math.log(CLIPPED)),
      at = Math.min(VIRIDIS.length - 1, Math.round(share * (VIRIDIS.length - 1)));
    cell.style.background = VIRIDIS[at];
    cell.style.color = at < 5 ? "#000000" : "#FFFFFF";
    if (row === this.best && String(this.placeOf(row)) === String([x, y])) cell.textContent = "\u2605";
    for (const [side, [dx, dy]] of Object.entries(SIDES)) {
      const crossed = percent => this.within(row, percent) && !this.within(this.rowAt(x + dx, y + dy), percent);
      if (crossed(5)) cell.style[`border${side}`] = `2px ${crossed(1) ? "solid" : "dashed"} var(--mark)`;
      else if (crossed(1)) cell.style[`border${side}`] = "2px solid var(--mark)";
    }
    cell.title = this.lines(row)
      .map(line => line.textContent)
      .join("\n");
    cell.tabIndex = -1;
    cell.onclick = () => this.choose({row});
    cell.onkeydown = event => {
      if (this.key(event.key)) event.preventDefault();
    };
  }

  // Say the ends of the scale, and the unit of the numbers.
  scale(unit) {
    const place = this.place.querySelector(".scale"),
      best = this.ticks[this.best] ?? 0,
      words = [exact(best), `${exact(Math.round(CLIPPED * best))} or more${unit}`];
    place.querySelectorAll("b").forEach((one, k) => (one.textContent = words[k]));
    place.querySelector(".ramp").style.background = `linear-gradient(90deg, ${VIRIDIS.join(", ")})`;
  }

  lines(row) {
    const over = this.ticks[row] / this.ticks[this.best] - 1,
      words = this.about.columns.map((column, k) => `${column.name} ${column.texts[this.index[k][row]]}`),
      against = row === this.best ? "the best here" : `${(100 * over).toFixed(1)} % above the best here`;
    return [made("b", exact(this.ticks[row])), made("p", words.join(", ")), made("p", against, "soft")];
  }

  cellOf(row) {
    const [x, y] = this.placeOf(row);
    return this.place.querySelector(".grid tbody").rows[this.up.length - 1 - y].cells[x + 1];
  }

  // Go to the next cell in the direction of an arrow key.
  key(key) {
    const by = STEPS[key];
    if (!by) return false;
    let [x, y] = this.placeOf(this.chosen),
      row = -1;
    do {
      [x, y] = [x + by[0], y + by[1]];
      row = this.rowAt(x, y);
    } while ((row < 0 || row === this.chosen) && this.across[x] !== undefined && this.up[y] !== undefined);
    if (row >= 0) this.choose({row}).then(() => this.cellOf(row).focus());
    return true;
  }

  // Say what a cell is, show its time line where the page has one, else the command that does.
  async choose({row}) {
    for (const cell of this.place.querySelectorAll("[aria-selected]")) cell.removeAttribute("aria-selected");
    if (row < 0) return this.told.replaceChildren("No row has these values.");
    this.chosen = row;
    const cell = this.cellOf(row);
    cell.setAttribute("aria-selected", true);
    cell.tabIndex = 0;
    const number = this.about.lines[row],
      options = this.about.columns.map((column, k) => column.options[this.index[k][row]]).filter(Boolean),
      words = `${number === undefined ? "This page has no time line of it. " : ""}The command that shows it:`,
      command = [made("p", words), made("pre", [this.about.command, ...options].join(" "))];
    this.told.replaceChildren(...this.lines(row), ...(this.about.command ? command : []));
    const place = this.place.querySelector(".cell");
    place.hidden = number === undefined;
    if (number !== undefined)
      this.view = await shownIn(place, [this.about.all[number]], window.streamsim.lineOf, this.view);
  }
}

async function startMap(data) {
  const about = {...data.map, all: data.lines};
  const map = new HeatMap(document.querySelector(".map"), about, await unpack(about.data, about.rows));
  await map.pivot();
  return map;
}
