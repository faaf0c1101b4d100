// A view of one or several time lines: buttons, wheel, drag and keys

// Show other time lines in a place that has pictures for as many.
async function shownIn(place, abouts, lineOf, old) {
  const lines = await Promise.all(abouts.map(lineOf));
  place.querySelectorAll(".line").forEach((line, k) => {
    line.hidden = k >= abouts.length;
    if (line.hidden) return;
    const {title} = abouts[k],
      picture = line.querySelector(".picture");
    line.querySelector("h3").textContent = title;
    picture.setAttribute("aria-label", `Time line. ${title}. ${picture.dataset.read}`);
  });
  place.querySelectorAll("details.ops summary").forEach((summary, k) => {
    summary.parentElement.hidden = k >= abouts.length;
    summary.textContent = `Table of the ops: ${abouts[k]?.name}`;
  });
  const view = new View(place, lines, old);
  view.choose(view.charts[0], null);
  return view;
}

// Show the time lines of the page; a button for each change shows the changed one above the others.
async function startLines(shared) {
  const {lines} = shared.data,
    place = document.querySelector(".lines"),
    others = lines.slice(1, place.querySelectorAll(".line").length),
    buttons = [...place.querySelectorAll("[data-line]")];
  const show = async (number, pressed) => {
    shared.view = await shownIn(place, [lines[number], ...others], shared.lineOf, shared.view);
    for (const button of buttons) button.setAttribute("aria-pressed", button === pressed);
  };
  for (const button of buttons) button.onclick = () => show(button.dataset.line, button);
  await show(0, buttons[0]);
}

class View {
  // `old`: the view before this one, whose buttons stay pressed.
  constructor(place, lines, old) {
    Object.assign(this, {place, path: old?.path ?? false, names: old?.names ?? false});
    this.set(0, Math.max(...lines.map(line => line.until)) * 1.005);
    this.until = this.to;
    this.charts = lines.map((line, k) => new Chart(line, this, place.querySelectorAll(".picture")[k]));
    this.charts.forEach(chart => this.listen(chart));
    this.told = place.querySelector(".told");
    this.hint = old?.hint ?? this.told.firstElementChild;
    for (const button of place.querySelectorAll("[data-key]"))
      button.onclick = () => this.key(this.charts.find(one => one.selected) ?? this.charts[0], button.dataset);
    place.querySelector("[data-key=n]").hidden = !lines.some(line => line.hue.size > 1);
    const find = place.querySelector("[type=search]");
    find.onkeydown = event => {
      if (event.key === "Enter") find.setAttribute("aria-invalid", !this.find(find.value.toLowerCase()));
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
    for (const chart of this.charts) chart.draw();
  }
  redraw() {
    this.asked ??= requestAnimationFrame(() => {
      this.asked = null;
      this.draw();
    });
  }
  toggle(what, key) {
    this[what] = !this[what];
    this.place.querySelector(`[data-key=${key}]`).setAttribute("aria-pressed", this[what]);
  }

  // Choose the next op whose name holds `text`, after the chosen one, then those of the next time line.
  find(text) {
    const {charts} = this,
      chosen = charts.find(one => one.selected) ?? charts[0],
      at = charts.indexOf(chosen);
    let first = (chosen.selected?.op ?? -1) + 1;
    for (const chart of [...charts.slice(at), ...charts.slice(0, at + 1)]) {
      for (let op = first; op < chart.line.count; op++) {
        const span = chart.line.title(op).toLowerCase().includes(text) && chart.line.spanOf(op);
        if (span) return this.choose(chart, span);
      }
      first = 0;
    }
    return false;
  }

  listen(chart) {
    const {place, canvas} = chart,
      tip = place.querySelector(".tip"),
      held = new Map(); // by finger, where it is
    let moved = false;
    const at = event => [event.offsetX, event.offsetY];
    canvas.onpointerdown = event => {
      held.set(event.pointerId, at(event)[0]);
      moved = held.size > 1;
      place.focus({preventScroll: true});
      canvas.setPointerCapture(event.pointerId);
    };
    canvas.onpointerup = canvas.onpointercancel = event => held.delete(event.pointerId);
    canvas.onpointermove = event => {
      const [x, y] = at(event),
        before = held.get(event.pointerId);
      if (Math.abs(x - before) > (moved ? 0 : 3)) {
        this.drag(chart, held, event.pointerId, x);
        [moved, tip.hidden] = [true, true];
        return;
      }
      const span = chart.hit(x, y);
      if (span?.op !== chart.hovered?.op || span?.row !== chart.hovered?.row) {
        chart.hovered = span;
        this.redraw();
      }
      showTip(tip, span && about(chart.line, span), x, y);
    };
    canvas.onpointerleave = () => {
      tip.hidden = true;
      chart.hovered = null;
      this.redraw();
    };
    canvas.onclick = event => {
      if (!moved) this.choose(chart, chart.hit(...at(event)));
    };
    canvas.onwheel = event => {
      const whole = this.to - this.from >= this.until - 1e-9,
        sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
      if (document.activeElement !== place || (!sideways && event.deltaY > 0 && whole)) return; // the page scrolls
      if (sideways) this.pan((event.deltaX || event.deltaY) / 600);
      else this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), chart.ticks(at(event)[0]));
      event.preventDefault();
      tip.hidden = true;
      this.redraw();
    };
    place.onkeydown = event => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey && this.key(chart, event)) event.preventDefault();
    };
  }

  // One finger or the mouse moves the view; two fingers zoom it, about the middle between them.
  drag(chart, held, finger, x) {
    const [one, other] = held.values(),
      middle = chart.ticks((one + other) / 2),
      from = held.get(finger);
    held.set(finger, x);
    const [left, right] = held.values();
    if (held.size === 2) this.zoom(Math.abs(one - other) / Math.max(1, Math.abs(left - right)), middle);
    else this.pan((from - x) / (chart.right - chart.left));
    this.redraw();
  }

  key(chart, {key, shiftKey}) {
    const step = {ArrowLeft: -1, ArrowRight: 1}[key],
      over = {ArrowUp: -1, ArrowDown: 1}[key],
      {selected, line} = chart,
      middle = selected ? (selected.row.from[selected.k] + selected.row.to[selected.k]) / 2 : undefined;
    if (step && shiftKey) this.pan(step / 5);
    else if (step) this.choose(chart, this.beside(chart, step));
    else if (over) this.choose(chart, this.acrossFrom(chart, over));
    else if (key === "+" || key === "=") this.zoom(0.5, middle);
    else if (key === "-") this.zoom(2, middle);
    else if (key === "0") this.set(0, this.until);
    else if (key === "Enter") this.choose(chart, line.spanOf(line.cause[selected?.op]) ?? selected);
    else if (key === "l") this.choose(chart, otherSpan(line, selected) ?? selected);
    else if (key === "c") this.toggle("path", key);
    else if (key === "n") this.toggle("names", key);
    else if (key === "Escape") this.choose(chart, null);
    else return false;
    this.redraw();
    return true;
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

  // Select a span, bring it into view and say what is known of it. Return whether there is one.
  choose(chart, span) {
    for (const one of this.charts) one.select(one === chart ? span : null);
    const middle = span && (span.row.from[span.k] + span.row.to[span.k]) / 2,
      half = (this.to - this.from) / 2;
    if (span && (span.row.to[span.k] < this.from || span.row.from[span.k] > this.to))
      this.set(middle - half, middle + half);
    this.tell(chart, span);
    this.redraw();
    return Boolean(span);
  }

  tell(chart, span) {
    const {line, chainOps} = chart,
      go = (words, to) => pressed(words, () => this.choose(chart, to));
    if (!span) return this.told.replaceChildren(this.hint);
    const several = this.charts.length > 1 ? [made("p", line.about.name, "soft")] : [],
      other = otherSpan(line, span);
    this.told.replaceChildren(...several, ...about(line, span));
    if (other)
      this.told.append(go(span.row.group === "host" ? "To what it issued" : "To the call that issued it", other));
    const before = chainOps.slice(0, -1).reverse(),
      list = document.createElement("ol");
    for (const op of before.slice(0, 40)) {
      const item = document.createElement("li"),
        words = `${line.title(op)}, ${where(line, op)}`;
      item.append(go(words, line.spanOf(op)), ` ${exact(line.start[op])} to ${exact(line.end[op])}`);
      list.append(item);
    }
    if (before.length) this.told.append(made("p", `What it followed from (${before.length} in all), the last first:`), list);
  }

  legend() {
    const used = new Set(this.charts.flatMap(({line}) => line.rows.flatMap(row => [...new Set(row.kind)])));
    if (this.charts.some(({line}) => line.about.waited)) used.add(WAIT);
    const items = window.streamsim.data.kinds.map((words, kind) => {
      const item = document.createElement("li"),
        swatch = made("span", "", "swatch");
      swatch.style.background = `var(--${KINDS[kind]})`;
      item.append(swatch, words);
      return item;
    });
    this.place.querySelector(".legend").replaceChildren(...items.filter((_, kind) => used.has(kind)));
  }

  // Behind the picture a table of its ops, a hundred at a time. An op's number leads to it.
  table() {
    this.place.querySelectorAll("details.ops:not([hidden])").forEach((details, k) => {
      let first = 0;
      const chart = this.charts[k],
        {line} = chart,
        [back, on] = details.querySelectorAll("button"),
        fill = (by = 0) => {
          first = Math.min(Math.max(0, first + by), Math.max(0, line.count - 1));
          first -= first % 100;
          if (details.open) details.querySelector(".scroll").replaceChildren(opsTable(line, first, follow));
        },
        follow = op => {
          this.choose(chart, line.spanOf(op));
          chart.place.scrollIntoView({block: "nearest"});
        };
      back.onclick = () => fill(-100);
      on.onclick = () => fill(100);
      details.ontoggle = () => fill();
      fill();
    });
  }
}
