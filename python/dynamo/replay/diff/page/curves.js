// The latencies of both runs: how many of their requests took how long at most.

function drawCurvesOfRuns() {
  const boxes = data.curves.map(() => html("div", { class: "chart" }));
  document.getElementById("curves").replaceChildren(...data.curves.map((latency, at) =>
    html("div", {}, html("h3", {}, latency.title), boxes[at])));
  data.curves.forEach((latency, at) => {
    const high = Math.max(1e-9, ...latency.runs.flat());
    const curves = latency.runs.map((run, number) => ({ points: [...run.map((ms, percent) => [ms, percent]), [high, 100]], style: colour(number) }));
    drawCurves(boxes[at], curves, {
      height: 210, x: [0, high], y: [0, 100], xName: "ms", yName: "% of requests",
      label: `${latency.title}: median ${latency.runs.map((run, number) => `${"AB"[number]} ${shown(run[50])} ms`).join(", ")}`,
      tell: part => [`up to ${shown(Number((part * high).toPrecision(4)))} ms`,
        ...latency.runs.map((run, number) => `${"AB"[number]}: ${Math.max(0, run.filter(ms => ms <= part * high).length - 1)} %`)],
    });
  });
}

redrawn(drawCurvesOfRuns);
