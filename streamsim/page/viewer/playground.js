// The playground: controls, the model in workers, and what the page shows of its answers

// Python in a worker. It is asked one thing at a time; of several choices that come meanwhile the last one counts.
class Model {
  constructor(script, files, asked, told) {
    Object.assign(this, {asked, told, next: null, busy: true});
    this.worker = new Worker(script);
    this.ready = new Promise((resolve, reject) => {
      this.worker.onmessage = ({data: {said, failed}}) => {
        if (failed) return reject(failed), told({error: failed});
        resolve();
        if (said) told(said);
        this.busy = false;
        this.go();
      };
      this.worker.onerror = ({message}) => reject(message ?? "the browser cannot start a worker");
    });
    this.worker.postMessage({files});
  }
  ask(choice) {
    this.next = choice;
    this.go();
  }
  go() {
    if (this.busy || !this.next) return;
    this.worker.postMessage({asked: this.asked, choice: this.next});
    [this.next, this.busy] = [null, true];
  }
}

class Playground {
  constructor(shared) {
    Object.assign(this, {shared, controls: [...document.querySelectorAll("[data-control]")]});
    this.state = document.querySelector(".state");
    this.lessons = [...document.querySelectorAll("[data-lesson]")];
    this.lessons.forEach((button, k) => (button.onclick = () => this.begin(k)));
    for (const control of this.controls) control.onchange = () => this.changed();
    for (const slider of document.querySelectorAll("[type=range]"))
      slider.oninput = () => {
        this.fill({[slider.name]: shared.data.values[slider.name][slider.value]});
        this.changed();
      };
    for (const button of document.querySelectorAll("[data-copy]")) button.onclick = () => this.copy(button);
    addEventListener("hashchange", () => this.open());
    this.open();
  }

  part(name) {
    return document.querySelector(`[data-part=${name}]`);
  }
  choice() {
    return Object.fromEntries(this.controls.map(control => [control.dataset.control, control.value]));
  }
  fill(choice) {
    for (const control of this.controls) {
      const text = choice[control.dataset.control],
        isKnown = control.tagName !== "SELECT" || [...control.options].some(option => option.value === text);
      if (text !== undefined && isKnown) control.value = text;
    }
  }

  // Choose what the address says, if it says anything.
  open() {
    const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
    this.fill(given);
    if (Object.keys(given).length) this.changed(-1, "");
  }
  begin(lesson) {
    const {choice, words} = this.shared.data.lessons[lesson];
    this.fill(choice);
    this.changed(lesson, words);
  }
  // Ask for what is chosen, and let the address say it. `words`: what the lesson says now.
  changed(lesson = -1, words = null) {
    this.lessons.forEach((button, k) => button.setAttribute("aria-pressed", k === lesson));
    if (words !== null) document.querySelector(".lesson").textContent = words;
    history.replaceState(null, "", "#" + new URLSearchParams(this.choice()));
    this.ask();
  }
  ask() {
    this.shower?.ask(this.choice());
    this.explainer?.ask(this.choice());
    this.busy(true);
  }
  async copy(button) {
    const text = button.dataset.copy === "link" ? location.href : this.part("command").textContent;
    await navigator.clipboard.writeText(text);
    this.state.textContent = `Copied: ${text}`;
  }

  async show(said) {
    this.state.textContent = said.error ?? "Every number is computed in this page by the model itself.";
    if (said.error) return;
    const {shared} = this;
    shared.view = await shownIn(document.querySelector(".lines"), said.lines, shared.lineOf, shared.view);
    for (const name of ["headline", "table"]) this.part(name).innerHTML = said[name];
    this.part("command").textContent = said.command;
    for (const slider of document.querySelectorAll("[type=range]"))
      if (slider !== document.activeElement) slider.value = said.places[slider.name] ?? slider.value;
  }
  explain(said) {
    this.part("advice").textContent = said.advice ?? "";
    this.part("losses").innerHTML = said.losses ?? "";
    this.busy(this.explainer.next !== null);
  }
  busy(is) {
    for (const name of ["advice", "losses"]) this.part(name).setAttribute("aria-busy", is);
  }

  // Start Python, then a second one that explains: dragging does not wait for explanations, which take longer.
  async start() {
    const {worker, files} = this.shared.data;
    const script = URL.createObjectURL(new Blob([await inflated(worker)], {type: "text/javascript"}));
    try {
      this.shower = new Model(script, files, "shown", said => this.show(said));
      this.ask();
      await this.shower.ready;
      this.explainer = new Model(script, files, "reason", said => this.explain(said));
      this.ask();
      await this.explainer.ready;
    } catch (error) {
      this.state.textContent = `Python cannot start in this browser: ${error}`;
    }
  }
}

started.then(shared => (shared.playground = new Playground(shared)).start());
