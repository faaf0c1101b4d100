// The map: rows of a sweep or a search as cells, the shortest of all rows that share a cell

const VIRIDIS = [
  "#FDE725",
  "#B5DE2B",
  "#6ECE58",
  "#35B779",
  "#1F9E89",
  "#26828E",
  "#31688E",
  "#3E4989",
  "#482878",
  "#440154",
];
const hue = share => {
  const at = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1),
    k = Math.min(Math.floor(at), VIRIDIS.length - 2);
  return mixed(VIRIDIS[k], VIRIDIS[k + 1], at - k);
};
const parts = colour => [1, 3, 5].map(k => parseInt(colour.slice(k, k + 2), 16));
const mixed = (one, other, share) =>
  `rgb(${parts(one)
    .map((part, k) => Math.round(part + (parts(other)[k] - part) * share))
    .join(" ")})`;

class HeatMap {
  /* `columns`: what varies, each with the texts of its values; `index[c][row]`: which of them; `ticks`: how long. */
  constructor(place, about, columns) {
    Object.assign(this, {
      place,
      about,
      index: columns.slice(0, -1),
      ticks: columns.at(-1),
      hovered: null,
      chosen: null,
    });
    this.canvas = place.querySelector("canvas");
    this.told = place.querySelector(".told");
    this.axes = about.axes.slice();
    this.fixed = about.columns.map(() => -1); // -1: the best of all values
    this.fillChoices();
    const at = event => {
      const box = this.canvas.getBoundingClientRect();
      return this.hit(event.clientX - box.left, event.clientY - box.top);
    };
    this.canvas.onpointermove = event => {
      this.hovered = at(event)?.row ?? null;
      this.showTip(event);
      this.draw();
    };
    this.canvas.onpointerleave = () => {
      this.hovered = null;
      this.showTip(null);
      this.draw();
    };
    this.canvas.onclick = event => {
      const cell = at(event);
      if (cell) this.choose(cell);
    };
    this.canvas.parentElement.onkeydown = event => {
      if (this.key(event.key)) event.preventDefault();
    };
    place.querySelector("details").ontoggle = () => this.table();
    this.pivot();
  }

  /* What varies beside the two axes can be held; the axes can be any two columns. */
  fillChoices() {
    const chooser = (words, options, now, changed) => {
      const label = made("label", words + " "),
        select = document.createElement("select");
      options.forEach(([value, text]) => {
        const option = made("option", text);
        option.value = value;
        select.append(option);
      });
      select.value = now;
      select.setAttribute("aria-label", words);
      select.onchange = () => {
        changed(+select.value);
        this.fillChoices();
        this.pivot();
      };
      label.append(select);
      return label;
    };
    const {columns} = this.about,
      names = columns.map((column, k) => [k, column.name]),
      found = [];
    if (columns.length > 2)
      found.push(
        ...["across", "up"].map((words, k) =>
          chooser(words, names, this.axes[k], value => {
            if (this.axes[1 - k] === value) this.axes[1 - k] = this.axes[k];
            this.axes[k] = value;
          }),
        ),
      );
    columns.forEach((column, k) => {
      if (this.axes.includes(k)) {
        this.fixed[k] = -1;
        return;
      }
      found.push(
        chooser(
          column.name,
          [[-1, "the best of all"], ...column.texts.map((text, value) => [value, text])],
          this.fixed[k],
          value => (this.fixed[k] = value),
        ),
      );
    });
    this.place.querySelector(".tools").replaceChildren(...found);
  }

  /* Each cell's shortest row, its best and worst. */
  pivot() {
    const [x, y] = this.axes,
      {columns} = this.about;
    [this.across, this.up] = [columns[x].texts, columns[y].texts];
    this.cells = new Float64Array(this.across.length * this.up.length).fill(-1);
    for (let row = 0; row < this.ticks.length; row++) {
      if (this.fixed.some((value, k) => value >= 0 && this.index[k][row] !== value)) continue;
      const cell = this.index[x][row] + this.index[y][row] * this.across.length,
        now = this.cells[cell];
      if (now < 0 || this.ticks[row] < this.ticks[now]) this.cells[cell] = row;
    }
    const rows = [...this.cells].filter(row => row >= 0);
    this.best = rows.reduce((best, row) => (best < 0 || this.ticks[row] < this.ticks[best] ? row : best), -1);
    this.worst = rows.reduce((worst, row) => (worst < 0 || this.ticks[row] > this.ticks[worst] ? row : worst), -1);
    this.chosen = null;
    this.draw();
    this.table();
  }

  placeOf(row) {
    return this.axes.map(axis => this.index[axis][row]);
  }
  rowAt(x, y) {
    return x < 0 || y < 0 || x >= this.across.length || y >= this.up.length
      ? -1
      : this.cells[x + y * this.across.length];
  }
  shareOf(row) {
    const span = Math.log(this.ticks[this.worst] / this.ticks[this.best]);
    return span > 0 ? Math.log(this.ticks[row] / this.ticks[this.best]) / span : 0;
  }
  within(row, percent) {
    return row >= 0 && this.ticks[row] * 100 <= this.ticks[this.best] * (100 + percent);
  }

  draw() {
    const [nx, ny] = [this.across.length, this.up.length],
      high = Math.min(34, Math.max(ny > 40 ? 5 : 15, Math.floor(380 / ny)));
    const [pen, width] = fitted(this.canvas, high * ny + 42);
    pen.font = `12px ${FONT}`;
    const [x, y] = this.axes,
      names = this.about.columns;
    const left = (this.left = Math.ceil(
      Math.min(
        width / 3,
        12 + Math.max(textWidth(pen, `\u2191 ${names[y].name}`), ...this.up.map(text => textWidth(pen, text))),
      ),
    ));
    const wide = (this.wide = Math.min(110, (width - left - 8) / nx)),
      bottom = high * ny + 2;
    Object.assign(this, {high, bottom});
    if (this.best < 0) {
      pen.fillStyle = colours.soft;
      pen.fillText("No row has these values.", left, 20);
      return;
    }
    this.drawCells(pen);
    for (const [percent, line, dash] of [
      [5, 1.5, [4, 3]],
      [1, 2.5, []],
    ])
      this.drawRegion(pen, percent, line, dash);
    pen.lineWidth = 2.5;
    for (const [row, colour] of [
      [this.hovered, colours.soft],
      [this.chosen, colours.mark],
    ]) {
      if (row === null) continue;
      const [cx, cy] = this.placeOf(row);
      pen.strokeStyle = colour;
      pen.strokeRect(left + cx * wide, bottom - (cy + 1) * high, wide, high);
    }
    pen.fillStyle = colours.ink;
    pen.textAlign = "right";
    const every = Math.ceil(13 / high);
    this.up.forEach((text, k) => {
      if (k % every === 0) pen.fillText(cut(pen, text, left - 6), left - 6, bottom - (k + 0.5) * high);
    });
    pen.textAlign = "center";
    const widest = Math.max(...this.across.map(text => textWidth(pen, text))),
      step = Math.ceil((widest + 8) / wide);
    this.across.forEach((text, k) => {
      if (k % step === 0) pen.fillText(text, left + (k + 0.5) * wide, bottom + 10);
    });
    pen.fillStyle = colours.soft;
    pen.textAlign = "left";
    pen.fillText(`${names[x].name} \u2192`, left, bottom + 28);
    pen.textAlign = "right";
    pen.fillText(`\u2191 ${names[y].name}`, left - 6, bottom + 28);
    this.place.querySelector(".scale").replaceChildren(...this.scale());
  }

  drawCells(pen) {
    const [unit, places] = unitOf(this.ticks[this.worst]),
      {wide, high, left, bottom} = this,
      nx = this.across.length;
    this.unit = unit;
    pen.textAlign = "center";
    pen.font = `11px ${FONT}`;
    const figures = [4, 3].find(
      count => high >= 14 && textWidth(pen, (this.ticks[this.worst] / 10 ** places).toPrecision(count)) + 6 <= wide,
    );
    this.cells.forEach((row, k) => {
      if (row < 0) return;
      const x = left + (k % nx) * wide,
        y = bottom - (Math.floor(k / nx) + 1) * high,
        share = this.shareOf(row);
      pen.fillStyle = hue(share);
      pen.fillRect(x, y, wide + (wide < 8 ? 0.4 : -1), high - (high > 8 ? 1 : 0));
      const text = figures ? (this.ticks[row] / 10 ** places).toPrecision(figures) : "",
        starred = `\u2605 ${text}`;
      pen.fillStyle = share < 0.55 ? "#000000" : "#FFFFFF";
      const words = row !== this.best ? text : textWidth(pen, starred) <= wide ? starred : "\u2605";
      pen.fillText(words, x + wide / 2, y + high / 2 + 0.5);
    });
    pen.font = `12px ${FONT}`;
  }

  /* The edge of the cells within so many per cent of the best. */
  drawRegion(pen, percent, line, dash) {
    const {wide, high, left, bottom} = this;
    pen.beginPath();
    for (let y = 0; y < this.up.length; y++)
      for (let x = 0; x < this.across.length; x++) {
        if (!this.within(this.rowAt(x, y), percent)) continue;
        const x0 = left + x * wide,
          x1 = x0 + wide,
          y1 = bottom - y * high,
          y0 = y1 - high;
        for (const [dx, dy, a, b, c, d] of [
          [-1, 0, x0, y0, x0, y1],
          [1, 0, x1, y0, x1, y1],
          [0, 1, x0, y0, x1, y0],
          [0, -1, x0, y1, x1, y1],
        ])
          if (!this.within(this.rowAt(x + dx, y + dy), percent)) {
            pen.moveTo(a, b);
            pen.lineTo(c, d);
          }
      }
    for (const [colour, more] of [
      [colours.paper, 1.5],
      [colours.mark, 0],
    ]) {
      pen.setLineDash(more ? [] : dash);
      pen.strokeStyle = colour;
      pen.lineWidth = line + more;
      pen.stroke();
    }
    pen.setLineDash([]);
  }

  scale() {
    const bar = made("span", "", "ramp");
    bar.style.background = `linear-gradient(90deg, ${VIRIDIS.join(", ")})`;
    return [
      `\u2605 ${rounded(this.ticks[this.best])} `,
      bar,
      ` ${rounded(this.ticks[this.worst])}; numbers in ${this.unit}. Solid line: within 1 % of the best. Dashed line: within 5 %.`,
    ];
  }

  hit(x, y) {
    const row =
      this.best < 0
        ? -1
        : this.rowAt(Math.floor((x - this.left) / this.wide), Math.floor((this.bottom - y) / this.high));
    return row < 0 ? null : {row};
  }

  words(row) {
    return this.about.columns.map((column, k) => `${column.name} ${column.texts[this.index[k][row]]}`).join(", ");
  }
  lines(row) {
    const over = this.ticks[row] / this.ticks[this.best] - 1,
      against = row === this.best ? "the best here" : `${(100 * over).toFixed(1)} % above the best here`;
    return [made("b", exact(this.ticks[row])), made("p", this.words(row)), made("p", against, "soft")];
  }

  showTip(event) {
    const tip = this.place.querySelector(".tip"),
      box = this.canvas.getBoundingClientRect();
    tip.hidden = this.hovered === null;
    if (tip.hidden) return;
    tip.replaceChildren(...this.lines(this.hovered));
    tip.style.left = Math.max(0, Math.min(event.clientX - box.left + 14, box.width - tip.offsetWidth)) + "px";
    tip.style.top = event.clientY - box.top + 18 + "px";
  }

  key(key) {
    const by = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]}[key],
      nx = this.across.length;
    if (!by) return false;
    const [x0, y0] = this.placeOf(this.chosen ?? this.best);
    for (let x = x0 + by[0], y = y0 + by[1]; x >= 0 && y >= 0 && x < nx && y < this.up.length; x += by[0], y += by[1])
      if (this.rowAt(x, y) >= 0) {
        this.choose({row: this.rowAt(x, y)});
        break;
      }
    return true;
  }

  /* Say what a cell is, show its time line where the page has one, else the command that does. */
  async choose({row}) {
    this.chosen = row;
    const number = this.about.lines[row],
      options = this.about.columns.map((column, k) => column.options[this.index[k][row]]).filter(Boolean);
    const found = this.lines(row);
    if (this.about.command)
      found.push(
        made(
          "p",
          number === undefined
            ? "This page has no time line of it. The command that shows it:"
            : "The command that shows it:",
        ),
        made("pre", [this.about.command, ...options].join(" ")),
      );
    this.told.replaceChildren(...found);
    this.draw();
    if (number !== undefined) await this.show(number);
  }

  async show(number) {
    const place = this.place.querySelector(".cell");
    place.hidden = false;
    this.view = await shownIn(place, [this.about.all[number]], window.streamsim.lineOf);
  }

  /* The same numbers as a table, for whoever does not see the picture. */
  table() {
    const details = this.place.querySelector("details.cells");
    if (!details.open) return;
    const table = document.createElement("table"),
      head = table.createTHead().insertRow(),
      body = table.createTBody(),
      [x, y] = this.axes.map(k => this.about.columns[k].name);
    for (const text of [`${y} \\ ${x}`, ...this.across]) {
      const cell = made("th", text);
      cell.scope = "col";
      head.append(cell);
    }
    this.up.forEach((text, k) => {
      const row = body.insertRow(),
        name = made("th", text);
      name.scope = "row";
      row.append(name);
      this.across.forEach((_, at) => {
        const found = this.rowAt(at, k);
        row.append(made("td", found < 0 ? "" : exact(this.ticks[found]), "number"));
      });
    });
    details.querySelector(".scroll").replaceChildren(table);
  }
}

async function startMap(data) {
  const about = {...data.map, all: data.lines},
    place = document.querySelector(".map");
  const map = new HeatMap(place, about, await unpack(about.data, about.rows));
  if (about.first !== null) await map.choose({row: about.first});
  return map;
}
