// Measured against simulated latencies, and errors by number of clients.

const BAND = 1.2; // the factor of the band around the line of agreement
const styleOf = engine => colour(data.engines.indexOf(engine));

function drawMeasurements(box) {
  const { metric, group } = box.dataset, ends = data.spans[metric];
  const chosen = data.points[metric].filter(([, , , at]) => group === undefined || data.groups[at] === group);
  const points = chosen.map(([measured, simulated, engine, , about]) => [measured, simulated, colour(engine),
    [about, `measured: ${shown(measured)} ms`, `simulated: ${shown(simulated)} ms`, `error: ${((simulated / measured - 1) * 100).toFixed(1)} %`]]);
  const decades = Math.round(Math.log10(ends[1] / ends[0]));
  const powers = Array.from({ length: decades + 1 }, (_, at) => ends[0] * 10 ** at);
  drawPoints(box, points, {
    xTicks: decades > 2 && box.clientWidth < 400 ? powers.map(tick => [tick, shown(tick)]) : null,
    height: Math.min(460, Math.max(260, box.clientWidth)), x: ends, y: ends, band: BAND, xName: "measured, ms", yName: "simulated, ms",
    label: `${metric.toUpperCase()} of ${group || "all measurements"}: measured against simulated, ${points.length} points`,
  });
}

function drawErrors(box) {
  const errors = data.errors[box.dataset.errors], engines = Object.keys(errors).sort();
  const least = name => Number(name.match(/\d+/)[0]);
  const classes = [...new Set(engines.flatMap(engine => errors[engine].map(([name]) => name)))].sort((a, b) => least(a) - least(b));
  const lines = engines.map(engine => errors[engine].map(([name, error]) => [classes.indexOf(name) + 0.5, error]));
  const high = Math.max(1, ...lines.flat().map(([, error]) => error)) * 1.07;
  const curves = engines.flatMap((engine, at) => [{ points: lines[at], style: styleOf(engine) }, { points: lines[at], style: styleOf(engine), kind: "dots" }]);
  drawCurves(box, curves, {
    height: 240, x: [0, classes.length], y: [0, high], xName: "clients", yName: "mean absolute error, %",
    label: `Error of ${box.dataset.errors.toUpperCase()} by clients, for ${engines.join(", ")}`,
    xTicks: classes.map((name, at) => [at + 0.5, name]), rows: classes.map((_, at) => (at + 0.5) / classes.length),
    tell: part => {
      const at = Math.min(classes.length - 1, Math.floor(part * classes.length));
      const values = engines.map(engine => [engine, errors[engine].find(([name]) => name === classes[at])]);
      return [`${classes[at]} clients`, ...values.filter(([, found]) => found).map(([engine, [, error]]) => `${engine}: ${error.toFixed(1)} %`)];
    },
  });
}

// Charts in what is closed have no width: they are drawn when it opens.
function drawAll(within) {
  for (const box of within.querySelectorAll(".chart")) {
    if (box.clientWidth > 0) (box.dataset.errors ? drawErrors : drawMeasurements)(box);
  }
}

for (const key of document.querySelectorAll(".key")) key.setAttribute("style", styleOf(key.dataset.engine));
for (const part of document.querySelectorAll("main > details")) part.addEventListener("toggle", () => { if (part.open) drawAll(part); });
redrawn(() => drawAll(document.querySelector("main")));
