// The page: runs, stops, and shows what came of it beside the run before.

const statusLine = document.getElementById("status"), runButton = document.getElementById("run"), stopButton = document.getElementById("stop");
let wasm = null, worker = null, ready = null, running = null, shownRun = null, earlier = null;

const say = (text, bad = false) => { statusLine.textContent = text; statusLine.classList.toggle("bad", bad); };

// The core, which is packed: file servers need not do it.
async function loadCore() {
  const answer = await fetch("dynosim.wasm.gz");
  if (!answer.ok) throw new Error(`dynosim.wasm.gz: ${answer.status} ${answer.statusText}`);
  // A server that says how the file is packed has it unpacked by the browser.
  const body = answer.headers.get("content-encoding") === "gzip" ? answer.body : answer.body.pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compileStreaming(new Response(body, { headers: { "Content-Type": "application/wasm" } }));
}

async function startWorker() {
  wasm = wasm || loadCore();
  const module = await wasm;
  worker = new Worker("worker.js");
  await new Promise((resolve, reject) => {
    worker.onmessage = ({ data: told }) => told.ready ? resolve() : reject(new Error(told.message));
    worker.onerror = event => reject(new Error(event.message));
    worker.postMessage({ module });
  });
}

const fetched = new Map();
async function bytesOf(path) {
  if (!fetched.has(path)) {
    const answer = await fetch(`traces/${path.split("/").pop()}`);
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${answer.statusText}`);
    fetched.set(path, new Uint8Array(await answer.arrayBuffer()));
  }
  return fetched.get(path);
}

async function run() {
  if (running) stopRun();
  let asked;
  try { asked = readForm(); } catch (error) { say(error.message, true); return; }
  const mine = running = { asked };
  history.replaceState(null, "", addressOf() ? `#${addressOf()}` : location.pathname + location.search);
  runButton.disabled = true;
  stopButton.disabled = false;
  try {
    say(worker ? "running …" : "loading the core …");
    ready = ready || startWorker();
    await ready;
    const paths = asked.arguments.trace_files || [];
    const held = await Promise.all(paths.map(async path => [path, dropped && path === dropped.name && valueOf("workload") === "file" ? dropped.bytes : await bytesOf(path)]));
    if (running !== mine) return;
    say("running …");
    const told = await new Promise((resolve, reject) => {
      mine.stop = reject;
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = event => reject(new Error(event.message));
      worker.postMessage({ config: jobOf(asked), files: held });
    });
    if (running !== mine) return;
    if (told.kind) throw Object.assign(new Error(told.message), { broken: told.kind === "internal" });
    show(asked, told);
    say(`${told.outcome.report.num_requests.toLocaleString("en-US")} requests in ${told.seconds.toFixed(2)} s`);
  } catch (error) {
    if (!worker) ready = wasm = null; // the next run loads it again
    if (running !== mine) return;
    if (error.broken) endWorker();
    say(error.message, true);
  }
  finish();
}

function finish() {
  running = null;
  runButton.disabled = false;
  stopButton.disabled = true;
}

function endWorker() {
  if (worker) worker.terminate();
  worker = ready = null;
}

function stopRun() {
  endWorker();
  finish();
  say("stopped");
}

function show(asked, told) {
  earlier = shownRun;
  const report = reportOf(told);
  shownRun = { asked, report, warnings: told.outcome.warnings, cdfs: cdfsOf(report, told.distributions) };
  Object.assign(data, { cdfs: shownRun.cdfs, parts: partsOf(report), series: seriesData(report, told.series), faults: shadesOf(report) });
  document.getElementById("results").hidden = false;
  document.getElementById("warnings").replaceChildren(...shownRun.warnings.map(text => html("li", {}, text)));
  showCards();
  showTable();
  for (const section of ["parts-section", "cdf-section", "series-section"]) document.getElementById(section).hidden = true;
  drawParts();
  if (data.series) {
    const box = document.getElementById("figure"), before = box.value;
    box.replaceChildren(...data.series.figures.map(figure => html("option", { value: figure.name }, figure.title)));
    if (data.series.figures.some(figure => figure.name === before)) box.value = before;
  }
  drawAll();
  document.getElementById("command").textContent = commandOf(asked);
  document.getElementById("call").textContent = callOf(asked);
  document.getElementById("report").textContent = JSON.stringify(report);
}

const CARDS = [
  ["p99 time to first token", "p99_ttft_ms", "ms"], ["p99 time per output token", "p99_tpot_ms", "ms"], ["p99 token gap", "p99_itl_ms", "ms"],
  ["Output tokens/s", "output_throughput_tok_s", ""], ["Requests/s within the service level", "goodput_request_throughput_rps", ""],
  ["Prompt tokens reused", "prefix_cache_reused_ratio", "%"], ["GPU hours", "gpu_hours", ""],
];
const inUnit = (value, unit) => isMissing(value) ? "–" : unit === "%" ? `${(100 * value).toFixed(1)} %` : `${shown(Number(value.toPrecision(4)))}${unit ? ` ${unit}` : ""}`;

// How a figure differs from that of the run before, "" without one.
function difference(key) {
  const now = shownRun.report[key], then = earlier && earlier.report[key];
  if (isMissing(now) || isMissing(then) || !earlier) return "";
  if (now === then) return "the same";
  return then === 0 ? "from 0" : `${now > then ? "+" : "−"}${shown(Number(Math.abs(100 * (now / then - 1)).toPrecision(3)))} %`;
}

function showCards() {
  document.getElementById("cards").replaceChildren(...CARDS.filter(([, key]) => key in shownRun.report).map(([title, key, unit]) =>
    html("article", {}, html("h3", {}, title), html("p", { class: "big" }, inUnit(shownRun.report[key], unit)), html("p", {}, difference(key) ? `${difference(key)}, before: ${inUnit(earlier.report[key], unit)}` : ""))));
}

// The table of the command line, with the means of the run before and the change.
function showTable() {
  const { distributions, statistics, scalars, footer } = choices.summary, report = shownRun.report;
  const names = Object.keys(statistics), fixed = value => isMissing(value) ? "N/A" : value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  const rows = Object.entries(distributions).filter(([, key]) => `mean_${key}` in report).map(([label, key]) =>
    [label, ...names.map(name => fixed(report[`count_${key}`] === 0 ? null : report[`${statistics[name]}_${key}`])), fixedBefore(`mean_${key}`), difference(`mean_${key}`)]);
  for (const [label, key] of [...Object.entries(scalars), ...Object.entries(footer)]) {
    if (!(key in report) || (key === "rejected_requests" && !report[key]) || isMissing(report[key])) continue;
    rows.push([label, fixed(report[key]), ...names.slice(1).map(() => ""), fixedBefore(key), key === "wall_time_ms" ? "" : difference(key)]);
  }
  const heads = ["Metric", ...names, "avg before", "change"];
  document.getElementById("summary").replaceChildren(html("table", {}, html("caption", {}, "The table of the command line, and the run before"),
    html("thead", {}, html("tr", {}, ...heads.map((name, at) => html("th", { scope: "col", class: at ? "number" : "text" }, name)))),
    html("tbody", {}, ...rows.map(row => html("tr", {}, ...row.map((text, at) => html(at ? "td" : "th", at ? {} : { scope: "row", class: "text" }, text)))))));
  function fixedBefore(key) { return earlier && !isMissing(earlier.report[key]) ? fixed(earlier.report[key]) : "–"; }
}

// Distributions of this run, and dashed those of the one before.
function drawBoth() {
  if (!data.cdfs.length) return;
  document.getElementById("cdf-section").hidden = false;
  const logarithmic = document.getElementById("log").checked;
  const boxes = data.cdfs.map(() => html("div", { class: "chart" }));
  document.getElementById("cdfs").replaceChildren(...data.cdfs.map((cdf, at) => html("div", {}, html("h3", {}, cdf.title), boxes[at])));
  data.cdfs.forEach((cdf, at) => {
    const old = earlier && earlier.cdfs.find(found => found.name === cdf.name), every = old ? [...cdf.values, ...old.values] : cdf.values;
    const positive = every.filter(value => value > 0), logs = logarithmic && positive.length > 0;
    const low = logs ? Math.min(...positive) : 0, high = Math.max(...every, low * 1.01, 1e-9, 1.03 * (cdf.bound || 0));
    const percent = (values, place) => 100 * place / Math.max(1, values.length - 1);
    const points = values => [...values.map((value, place) => [Math.max(value, low), percent(values, place)]), [high, 100]];
    const told = (values, ms) => `${shown(Number(percent(values, Math.max(0, values.filter(value => value <= ms).length - 1)).toPrecision(3)))} %`;
    drawCurves(boxes[at], [...(old ? [{ points: points(old.values), kind: "before" }] : []), { points: points(cdf.values), style: colour(at) }], {
      height: 210, x: [low, high], y: [0, 100], xName: "ms", yName: "% of requests", logarithmic: logs, bound: { x: cdf.bound },
      label: `${cdf.title}, percent of requests: median ${shown(cdf.values[Math.floor(cdf.values.length / 2)])} ms`,
      tell: part => {
        const ms = logs ? low * (high / low) ** part : part * high;
        return [`up to ${shown(Number(ms.toPrecision(4)))} ms`, `requests: ${told(cdf.values, ms)}`, ...(old ? [`before: ${told(old.values, ms)}`] : [])];
      },
    });
  });
}

function drawAll() {
  if (!shownRun) return;
  drawBoth();
  drawSeries();
}

async function takeFile(file) {
  if (!file) return;
  dropped = { name: file.name, bytes: new Uint8Array(await file.arrayBuffer()) };
  field("workload").value = "file";
  document.getElementById("file-name").textContent = `${file.name}, ${shown(file.size)} bytes. It stays on this machine.`;
  showNeeded();
}

async function copy(button) {
  const text = document.getElementById(button.dataset.copy).textContent;
  try {
    await navigator.clipboard.writeText(text);
    say("copied");
  } catch {
    getSelection().selectAllChildren(document.getElementById(button.dataset.copy)); // to be copied by hand
    say("selected: the browser lets no page copy here");
  }
}

function save() {
  const link = html("a", { href: URL.createObjectURL(new Blob([JSON.stringify(shownRun.report, null, 2)], { type: "application/json" })), download: "report.json" });
  link.click();
  URL.revokeObjectURL(link.href);
}

function start() {
  form.addEventListener("submit", event => { event.preventDefault(); run(); });
  form.addEventListener("input", showNeeded);
  stopButton.addEventListener("click", stopRun);
  field("file").addEventListener("change", event => takeFile(event.target.files[0]));
  const drop = document.getElementById("drop");
  document.addEventListener("dragover", event => { event.preventDefault(); drop.classList.add("over"); });
  document.addEventListener("dragleave", () => drop.classList.remove("over"));
  document.addEventListener("drop", event => { event.preventDefault(); drop.classList.remove("over"); takeFile(event.dataTransfer.files[0]); });
  document.getElementById("figure").addEventListener("change", drawSeries);
  document.getElementById("log").addEventListener("change", drawBoth);
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(button));
  document.getElementById("save").addEventListener("click", save);
  document.getElementById("crash").addEventListener("click", () => { field("faults").value = choices.crash; });
  window.addEventListener("hashchange", () => { fillForm(location.hash.slice(1)); run(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  const main = document.querySelector("main");
  let width = main.clientWidth;
  new ResizeObserver(() => { if (main.clientWidth !== width) { width = main.clientWidth; drawAll(); } }).observe(main);
  fillForm(location.hash.slice(1));
  if (valueOf("workload") === "file") say("Choose the file that this address is about, or drop it here");
  else run();
}

start();
