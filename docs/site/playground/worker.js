// The Web Worker: the core in WebAssembly, one run at a time. To stop a run, the page ends the worker.

const DISTRIBUTIONS = ["ttft_ms", "itl_ms", "e2e_latency_ms"];
const QUANTILES = 300;

// A column of requests, sorted and at even ranks, the smallest and the largest included.
function quantiles(column) {
  const sorted = column.filter(value => !Number.isNaN(value)).sort();
  const count = Math.min(sorted.length, QUANTILES);
  return Array.from({ length: count }, (_, at) => sorted[count < 2 ? 0 : roundedToEven(at * (sorted.length - 1) / (count - 1))]);
}

function roundedToEven(number) {
  const below = Math.floor(number);
  if (number - below !== 0.5) return Math.round(number);
  return below % 2 ? below + 1 : below;
}

// The series of a run, column by column.
function seriesOf(shape) {
  if (!shape) return null;
  const read = (names, from) => names.map(name => [name, from(`timeseries/${name}`)]);
  const numbers = name => Array.from(globalThis.dynosim.column(name), Number);
  return { step_ms: shape.step_ms, columns: Object.fromEntries([
    ...read(shape.columns.float, numbers), ...read(shape.columns.int, numbers), ...read(shape.columns.text, globalThis.dynosim.texts)]) };
}

function answer(kind, text, began) {
  if (kind) return postMessage({ kind, message: text });
  const outcome = JSON.parse(text), rows = outcome.rows > 0;
  const distributions = Object.fromEntries(DISTRIBUTIONS.map(name => [name, rows ? quantiles(globalThis.dynosim.column(name)) : []]));
  postMessage({ kind: "", outcome, distributions, series: seriesOf(outcome.timeseries), seconds: (performance.now() - began) / 1000, version: globalThis.dynosim.version });
}

onmessage = ({ data: asked }) => {
  if (asked.module) {
    globalThis.dynosimReady = () => postMessage({ ready: true });
    const go = new Go();
    WebAssembly.instantiate(asked.module, go.importObject).then(made => go.run(made)).then(
      () => postMessage({ kind: "internal", message: "the core has ended" }), error => postMessage({ kind: "internal", message: String(error) }));
    return;
  }
  files.clear();
  for (const [path, bytes] of asked.files) files.set(path, bytes);
  const began = performance.now();
  globalThis.dynosim.run(asked.config, (kind, text) => answer(kind, text, began));
};
