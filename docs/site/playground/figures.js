// What the charts show of a run, as python/dynamo/replay/page/data.py makes it.

const STATISTICS = ["mean", "median", "p90", "p99"];
const MOST_CELLS = 60000, FEWEST_WINDOWS = 60;

// The report as the command line writes it.
function reportOf({ outcome, version }) {
  const report = { ...outcome.report, provenance: { version, ...outcome.provenance } };
  if (outcome.scaling_events !== null) for (const key of ["held_requests", "cold_worker_requests", "scaling_events"]) report[key] = outcome[key];
  Object.assign(report, outcome.faults);
  if (outcome.attribution) report.attribution = outcome.attribution;
  return Object.assign(report, outcome.tenants);
}

const boundOf = (report, name) => {
  const bound = report.provenance.arguments[choices.bounded[name]];
  return isMissing(bound) ? {} : { bound };
};

function cdfsOf(report, distributions) {
  return Object.entries(choices.latencies).filter(([name]) => distributions[name].length)
    .map(([name, title]) => ({ name, title, values: distributions[name], ...boundOf(report, name) }));
}

function partsOf(report) {
  const attribution = report.attribution;
  if (!attribution || !attribution.requests) return null;
  const names = Object.keys(attribution.ttft_ms.split.mean).filter(name => name !== "total");
  const bars = ["ttft_ms", "e2e_latency_ms"].map(latency => {
    const split = attribution[latency].split;
    const rows = STATISTICS.map(name => ({ name, total: split[name].total, parts: names.map(part => split[name][part]) }));
    return { title: choices.latencies[latency], rows, ...boundOf(report, latency) };
  });
  return { titles: names.map(name => name.replaceAll("_", " ")), bars };
}

function seriesData(report, series) {
  if (!series || !series.columns.pool.length) return null;
  const { pool, worker } = series.columns, second = pool.indexOf("cluster", 1), rows = second < 0 ? pool.length : second;
  const windows = pool.length / rows, shownRows = Math.min(rows - 1, Math.floor(MOST_CELLS / Math.min(windows, FEWEST_WINDOWS)));
  const joined = Math.max(1, Math.ceil(windows * shownRows / MOST_CELLS)), count = Math.ceil(windows / joined);
  const names = Array.from({ length: shownRows }, (_, at) => pool[at + 1] === "agg" ? `worker ${worker[at + 1]}` : `${pool[at + 1]} worker ${worker[at + 1]}`);
  const figures = [];
  for (const [name, title] of Object.entries(choices.figures)) {
    const column = series.columns[name];
    if (column === undefined) continue;
    const line = row => Array.from({ length: count }, (_, at) => {
      const part = [];
      for (let window = at * joined; window < Math.min(windows, (at + 1) * joined); window++) part.push(column[window * rows + row]);
      const there = part.filter(value => !Number.isNaN(value)), sum = there.reduce((total, value) => total + value, 0);
      return there.length ? name === "preemptions" ? sum : sum / there.length : null;
    });
    const cluster = line(0), workers = names.map((_, at) => line(at + 1));
    if ([cluster, ...workers].some(values => values.some(value => value))) figures.push({ name, title, cluster, workers, ...boundOf(report, name) });
  }
  if (!figures.length) return null;
  const step = series.step_ms * joined, counts = workersOver(report, step, count);
  if (counts) figures.push({ name: "workers", title: "workers", cluster: counts, workers: [] });
  return { step_ms: step, windows: count, workers: names, figures };
}

// How many workers there are at the end of each window, null if nothing changes them.
function workersOver(report, step, count) {
  if (!report.scaling_events) return null;
  const given = report.provenance.arguments, pools = { agg: "num_workers", prefill: "num_prefill_workers", decode: "num_decode_workers" };
  const now = Object.fromEntries(Object.entries(pools).filter(([, name]) => name in given).map(([pool, name]) => [pool, given[name]]));
  let at = 0;
  return Array.from({ length: count }, (_, window) => {
    for (; at < report.scaling_events.length && report.scaling_events[at].at_ms <= (window + 1) * step; at++) {
      now[report.scaling_events[at].pool] = report.scaling_events[at].to;
    }
    return Object.values(now).reduce((sum, workers) => sum + workers, 0);
  });
}

// The faults of a run as shades behind charts.
const shadesOf = report => (report.fault_events || []).map(fault => ({
  at: fault.at_ms / 1000, until: isMissing(fault.until_ms) ? null : fault.until_ms / 1000, name: fault.kind }));
