// The start

async function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  readColours();
  const lineOf = async about => new TimeLine(about, await unpack(about.columns, about.ops));
  const shared = (window.streamsim = {data, lineOf});
  if (document.querySelector(".lines")) await startLines(shared);
  if (data.map) shared.map = await startMap(data);
  const redraw = () => {
    readColours();
    shared.view?.draw();
    shared.map?.view?.draw();
  };
  addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  for (const when of ["beforeprint", "afterprint"])
    addEventListener(when, () => {
      document.documentElement.classList.toggle("on-paper", when === "beforeprint");
      redraw();
    });
  document.documentElement.dataset.drawn = "yes";
  return shared;
}
const started = start();
