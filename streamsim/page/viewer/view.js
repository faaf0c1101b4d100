// A view of one or several time lines: buttons, wheel, drag and keys

/* Show other time lines in a place that has pictures for as many. */
async function shownIn(place, abouts, lineOf) {
  const lines = await Promise.all(abouts.map(lineOf));
  place.querySelectorAll(".line").forEach((line, k) => {
    const title = `${abouts[k].name}: ${rounded(abouts[k].makespan)}`,
      picture = line.querySelector(".picture");
    line.querySelector("h3").textContent = title;
    picture.setAttribute("aria-label", `Time line. ${title}. ${picture.dataset.read}`);
  });
  place.querySelectorAll("details.ops summary").forEach((summary, k) => {
    summary.textContent = `Table of the ops: ${abouts[k].name}`;
  });
  const view = new View(place, lines);
  view.choose(view.charts[0], null);
  return view;
}

class View {
  constructor(place, lines) {
    this.place = place;
    this.set(0, Math.max(...lines.map(line => line.until)) * 1.005);
    this.until = this.to;
    this.charts = lines.map((line, k) => new Chart(line, this, place.querySelectorAll(".picture")[k]));
    const path = place.querySelector("[data-do=path]").getAttribute("aria-pressed") === "true";
    for (const chart of this.charts) chart.showPath = path; // as in the view before this one
    this.charts.forEach(chart => this.listen(chart));
    this.told = place.querySelector(".told");
    const actions = {
      in: () => this.zoom(0.5),
      out: () => this.zoom(2),
      all: () => this.set(0, this.until),
      path: () => this.togglePath(),
      clear: () => this.choose(this.charts[0], null),
    };
    for (const button of place.querySelectorAll("[data-do]"))
      button.onclick = () => {
        actions[button.dataset.do]();
        this.redraw();
      };
    this.legend();
    this.table();
    this.draw();
  }

  set(from, to) {
    const span = Math.min(Math.max(to - from, LEAST_VIEW), this.until ?? Infinity);
    this.from = Math.min(Math.max(0, from), Math.max(0, (this.until ?? Infinity) - span));
    this.to = this.from + span;
  }
  zoom(factor, at = (this.from + this.to) / 2) {
    this.set(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }
  pan(share) {
    const by = share * (this.to - this.from);
    this.set(this.from + by, this.to + by);
  }
  draw() {
    const begin = performance.now();
    for (const chart of this.charts) chart.draw();
    (this.took ??= []).push(performance.now() - begin);
  }
  redraw() {
    this.asked ??= requestAnimationFrame(() => {
      this.asked = null;
      this.draw();
    });
  }

  togglePath() {
    const shown = !this.charts[0].showPath;
    for (const chart of this.charts) chart.showPath = shown;
    this.place.querySelector("[data-do=path]").setAttribute("aria-pressed", shown);
  }

  listen(chart) {
    const {place, canvas} = chart,
      tip = place.querySelector(".tip");
    let held = null,
      moved = false;
    const at = event => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.onpointerdown = event => {
      held = event.clientX;
      moved = false;
      canvas.setPointerCapture(event.pointerId);
    };
    canvas.onpointerup = canvas.onpointercancel = () => {
      held = null;
    };
    canvas.onpointermove = event => {
      const [x, y] = at(event);
      if (held !== null && Math.abs(event.clientX - held) > (moved ? 0 : 3)) {
        this.pan((held - event.clientX) / (chart.right - chart.left));
        held = event.clientX;
        moved = true;
        tip.hidden = true;
        return this.redraw();
      }
      const span = chart.hit(x, y);
      if (span?.op !== chart.hovered?.op || span?.row !== chart.hovered?.row) {
        chart.hovered = span;
        this.redraw();
      }
      this.showTip(chart, tip, span, x, y);
    };
    canvas.onpointerleave = () => {
      tip.hidden = true;
      chart.hovered = null;
      this.redraw();
    };
    canvas.onclick = event => {
      if (!moved) this.choose(chart, chart.hit(...at(event)));
    };
    canvas.ondblclick = event => {
      const span = chart.hit(...at(event));
      if (span) this.close(span);
      this.redraw();
    };
    canvas.onwheel = event => {
      const whole = this.to - this.from >= this.until - 1e-9;
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey)
        this.pan((event.deltaX || event.deltaY) / 600);
      else if (event.deltaY > 0 && whole)
        return; // the page scrolls on
      else this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), chart.ticks(at(event)[0]));
      event.preventDefault();
      tip.hidden = true;
      this.redraw();
    };
    place.onkeydown = event => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey && this.key(chart, event)) event.preventDefault();
    };
  }

  close({row, k}) {
    const middle = (row.from[k] + row.to[k]) / 2,
      span = Math.max(row.to[k] - row.from[k], 1) * 4;
    this.set(middle - span / 2, middle + span / 2);
  }

  key(chart, {key, shiftKey}) {
    const step = {ArrowLeft: -1, ArrowRight: 1}[key],
      over = {ArrowUp: -1, ArrowDown: 1}[key];
    if (step && shiftKey) this.pan(step / 5);
    else if (step) this.choose(chart, this.beside(chart, step), true);
    else if (over) this.choose(chart, this.acrossFrom(chart, over), true);
    else if (key === "+" || key === "=") this.zoom(0.5, this.middle(chart));
    else if (key === "-") this.zoom(2, this.middle(chart));
    else if (key === "0" || key === "Home") this.set(0, this.until);
    else if (key === "Enter" || key === "w") {
      const op = chart.selected?.op;
      if (op >= 0 && chart.line.cause[op] >= 0) this.choose(chart, chart.spanOf(chart.line.cause[op]), true);
    } else if (key === "c") this.togglePath();
    else if (key === "Escape") this.choose(chart, null);
    else return false;
    this.redraw();
    return true;
  }

  middle(chart) {
    const span = chart.selected;
    return span ? (span.row.from[span.k] + span.row.to[span.k]) / 2 : undefined;
  }
  beside(chart, step) {
    const {row, k} = chart.selected ?? {row: chart.line.rows.find(one => one.from.length), k: -1};
    if (!row) return null; // nothing is drawn
    const next = Math.min(Math.max(k + step, 0), row.from.length - 1);
    return {op: row.op[next], row, k: next};
  }
  acrossFrom(chart, step) {
    const rows = chart.line.rows.filter(row => row.from.length),
      now = chart.selected;
    if (!now) return this.beside(chart, 1);
    const row = rows[Math.min(Math.max(rows.indexOf(now.row) + step, 0), rows.length - 1)];
    const k = Math.min(firstOver(row.reach, now.row.from[now.k]), row.from.length - 1);
    return {op: row.op[k], row, k};
  }

  /* Select a span and say what is known of it; `follow`: bring it into view. */
  choose(chart, span, follow = false) {
    for (const one of this.charts) one.select(one === chart ? span : null);
    if (span && follow) {
      const from = span.row.from[span.k],
        to = span.row.to[span.k];
      if (to < this.from || from > this.to) {
        const half = (this.to - this.from) / 2;
        this.set((from + to) / 2 - half, (from + to) / 2 + half);
      }
    }
    this.tell(chart, span);
    this.redraw();
  }

  tell(chart, span) {
    const several = this.charts.length > 1 && span;
    this.told.replaceChildren(
      ...(span
        ? [...(several ? [made("p", chart.line.about.name, "soft")] : []), ...about(chart.line, span)]
        : [made("p", this.told.dataset.hint, "soft")]),
    );
    const before = chart.chainOps.slice(0, -1).reverse();
    if (!span || !before.length) return;
    const list = document.createElement("ol");
    for (const op of before.slice(0, 40)) {
      const item = document.createElement("li"),
        button = made("button", `${shortened(chart.line.title(op))}, ${where(chart.line, op)}`);
      button.onclick = () => this.choose(chart, chart.spanOf(op), true);
      item.append(button, ` ${exact(chart.line.start[op])} to ${exact(chart.line.end[op])}`);
      list.append(item);
    }
    const words =
      before.length > 40
        ? `It followed from ${before.length} others; the last 40:`
        : "It followed from, the last first:";
    this.told.append(made("p", words), list);
  }

  showTip(chart, tip, span, x, y) {
    tip.hidden = !span;
    if (!span) return;
    tip.replaceChildren(...about(chart.line, span));
    const room = chart.place.clientWidth - tip.offsetWidth - 4;
    tip.style.left = Math.max(0, Math.min(x + 14, room)) + "px";
    tip.style.top = y + 18 + "px";
  }

  legend() {
    const used = new Set(
      this.charts.flatMap(({line}) => line.rows.flatMap(row => [...new Set(row.kind)].map(kind => KINDS[kind]))),
    );
    if (this.charts.some(({line}) => line.about.waited)) used.add("wait");
    const items = [...KINDS, "wait"]
      .filter(kind => used.has(kind))
      .map(kind => {
        const item = document.createElement("li"),
          swatch = made("span", "", "swatch");
        swatch.style.background = `var(--${kind})`;
        item.append(swatch, KIND_WORDS[kind]);
        return item;
      });
    this.place.querySelector(".legend").replaceChildren(...items);
  }

  /* Behind the picture a table of its ops, a hundred at a time. */
  table() {
    this.place.querySelectorAll("details.ops").forEach((details, k) => {
      let first = 0;
      const {line} = this.charts[k],
        show = by => {
          first = Math.min(Math.max(0, first + by), Math.max(0, line.count - 1));
          first -= first % 100;
          fill();
        };
      const fill = () => details.querySelector(".scroll").replaceChildren(opsTable(line, first));
      const [back, on] = details.querySelectorAll("button");
      back.onclick = () => show(-100);
      on.onclick = () => show(100);
      details.ontoggle = () => {
        if (details.open) fill();
      };
      details.ontoggle();
    });
  }
}
