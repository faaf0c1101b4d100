// The start

async function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  readColours();
  const lineOf = async about => new TimeLine(about, await unpack(about.columns, about.ops));
  const shared = (window.streamsim = {views: [], data, lineOf});
  for (const place of document.querySelectorAll(".lines"))
    shared.views.push(
      new View(place, await Promise.all(place.dataset.lines.split(" ").map(k => lineOf(data.lines[k])))),
    );
  if (data.map) shared.map = await startMap(data);
  const redraw = () => {
    readColours();
    shared.views.forEach(view => view.draw());
    shared.map?.view?.draw();
  };
  addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("on-paper");
    redraw();
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("on-paper");
    redraw();
  });
  document.documentElement.dataset.drawn = "yes";
  return shared;
}
const started = start();
