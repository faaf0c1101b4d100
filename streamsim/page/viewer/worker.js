// Python in a worker of the playground: it answers one question after the other

self.importScripts = undefined; // else Pyodide takes this worker for one that cannot run it

// Start Python from the files of the page; nothing is fetched.
async function pythonOf(files) {
  const raw = {};
  for (const name in files) raw[name] = await inflated(files[name]);
  const inside = "https://inside.the.page/";
  self.fetch = async url => {
    const name = String(url).slice(inside.length);
    if (!raw[name]) throw new Error(`${url} is not in the page`);
    return new Response(raw[name], {headers: {"Content-Type": "application/wasm"}});
  };
  const python = await loadPyodide({
    indexURL: inside,
    createPyodideModule: _createPyodideModule,
    lockFileContents: JSON.parse(new TextDecoder().decode(raw["lock.json"])),
  });
  python.unpackArchive(raw["site.zip"].buffer, "zip", {extractDir: python.runPython("import site; site.getsitepackages()[0]")});
  python.pyimport("absent");
  return python.pyimport("streamsim.playground");
}

let model;
onmessage = async ({data: {files, asked, choice}}) => {
  try {
    model ??= pythonOf(files);
    const {answer} = await model;
    postMessage({said: asked && JSON.parse(answer(asked, JSON.stringify(choice)))});
  } catch (error) {
    postMessage({failed: String(error)});
  }
};
