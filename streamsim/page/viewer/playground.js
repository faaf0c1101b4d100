// The playground: controls, the model in workers, and what the page shows of its answers

/* Python in a worker. It is asked one thing at a time; of several choices that come meanwhile the last one counts. */
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
    this.buttons = [...document.querySelectorAll("[data-lesson]")];
    for (const control of this.controls) control.oninput = () => this.changed();
    this.buttons.forEach((button, k) => (button.onclick = () => this.begin(k)));
    this.say();
  }

  part(name) {
    return document.querySelector(`[data-part=${name}]`);
  }
  valuesOf(control) {
    return this.shared.data.controls[control.dataset.control];
  }
  placeOf(control) {
    return control.tagName === "SELECT" ? control.selectedIndex : Number(control.value);
  }
  choice() {
    return Object.fromEntries(
      this.controls.map(control => [control.dataset.control, this.valuesOf(control)[this.placeOf(control)]]),
    );
  }

  /* Write beside each slider what it stands for. */
  say() {
    for (const control of this.controls.filter(one => one.type === "range")) {
      const text = this.valuesOf(control)[this.placeOf(control)] || this.shared.data.unset;
      control.parentElement.querySelector("output").textContent = text;
      control.setAttribute("aria-valuetext", text);
    }
  }
  changed(lesson = -1) {
    this.buttons.forEach((button, k) => button.setAttribute("aria-pressed", k === lesson));
    this.say();
    this.ask();
  }
  ask() {
    this.shower?.ask(this.choice());
    this.explainer?.ask(this.choice());
    this.busy(true);
  }
  begin(lesson) {
    const {choice, words} = this.shared.data.lessons[lesson];
    document.querySelector(".lesson").textContent = words;
    for (const control of this.controls) {
      const at = this.valuesOf(control).indexOf(choice[control.dataset.control]);
      if (control.tagName === "SELECT") control.selectedIndex = at;
      else control.value = at;
    }
    this.changed(lesson);
  }

  async show(said) {
    this.state.textContent = said.error ?? "Every number is computed in this page by the model itself.";
    if (said.error) return;
    this.shared.views[0] = await shownIn(document.querySelector(".lines"), said.lines, this.shared.lineOf);
    for (const name of ["headline", "table"]) this.part(name).innerHTML = said[name];
    this.part("command").textContent = said.command;
  }
  explain(said) {
    this.part("advice").textContent = said.advice ?? "";
    this.part("losses").innerHTML = said.losses ?? "";
    this.busy(this.explainer.next !== null);
  }
  busy(is) {
    for (const name of ["advice", "losses"]) this.part(name).setAttribute("aria-busy", is);
  }

  /* Start Python, then a second one that explains: dragging does not wait for explanations, which take longer. */
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
