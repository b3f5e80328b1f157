// What latencies consist of, and their distributions.

const partStyle = at => `--c: var(--p${at})`;

function stackOf(parts, most) {
  return html("span", { class: "stack", style: `width: ${(100 * parts.reduce((sum, part) => sum + part, 0) / most).toFixed(2)}%` },
    ...parts.map((ms, at) => ms > 0
      ? html("span", { style: `${partStyle(at)}; flex: ${ms} 0 0`, title: `${data.parts.titles[at]}: ${shown(ms)} ms` }) : null));
}

// The line of a bound across a bar whose room stands for that many milliseconds.
const mark = (bound, most) => isMissing(bound) || bound > most ? null
  : html("i", { class: "bound-mark", style: `left: ${(100 * bound / most).toFixed(2)}%`, title: `SLA ${shown(bound)} ms` });

function drawParts() {
  if (!data.parts) return;
  document.getElementById("parts-section").hidden = false;
  const used = data.parts.titles.map((_, at) => data.parts.bars.some(group => group.rows.some(row => row.parts[at] > 0)));
  document.getElementById("parts-legend").replaceChildren(...data.parts.titles.map((title, at) =>
    used[at] ? html("span", {}, html("span", { class: "swatch", style: partStyle(at) }), title) : null).filter(entry => entry));
  document.getElementById("parts").replaceChildren(...data.parts.bars.map(group => {
    const most = Math.max(...group.rows.map(row => row.total)) || 1;
    return html("div", {}, html("h3", {}, group.title), ...group.rows.map(row =>
      html("div", { class: "part" }, html("span", {}, row.name), html("span", { class: "room" }, stackOf(row.parts, most), mark(group.bound, most)),
        html("b", {}, `${shown(row.total)} ms`))),
      isMissing(group.bound) ? null : html("p", { class: "hint" }, `SLA ${shown(group.bound)} ms${group.bound > most ? ", beyond all of them" : ": the dashed line"}`));
  }));
  for (const cell of document.querySelectorAll("[data-parts]")) {
    const parts = JSON.parse(cell.dataset.parts), sum = parts.reduce((total, part) => total + part, 0);
    if (sum > 0) cell.append(stackOf(parts, sum));
  }
}

function drawDistributions() {
  if (!data.cdfs.length) return;
  document.getElementById("cdf-section").hidden = false;
  const logarithmic = document.getElementById("log").checked;
  const boxes = data.cdfs.map(cdf => html("div", { class: "chart" }));
  document.getElementById("cdfs").replaceChildren(...data.cdfs.map((cdf, at) => html("div", {}, html("h3", {}, cdf.title), boxes[at])));
  data.cdfs.forEach((cdf, at) => {
    const positive = cdf.values.filter(value => value > 0);
    const logs = logarithmic && positive.length > 0;
    const low = logs ? positive[0] : 0;
    const high = Math.max(cdf.values[cdf.values.length - 1], low * 1.01, 1e-9, 1.03 * (cdf.bound || 0));
    const percent = place => 100 * place / Math.max(1, cdf.values.length - 1);
    const points = cdf.values.map((value, place) => [Math.max(value, low), percent(place)]);
    points.push([high, 100]);
    drawCurves(boxes[at], [{ points, style: colour(at) }], {
      height: 210, x: [low, high], y: [0, 100], xName: "ms", yName: "% of requests", logarithmic: logs, bound: { x: cdf.bound },
      label: `${cdf.title}: median ${shown(cdf.values[Math.floor(cdf.values.length / 2)])} ms`,
      tell: part => {
        const ms = logs ? low * (high / low) ** part : part * high;
        const below = cdf.values.filter(value => value <= ms).length - 1;
        return [`up to ${shown(Number(ms.toPrecision(4)))} ms`, `requests: ${shown(Number(percent(Math.max(0, below)).toPrecision(3)))} %`];
      },
    });
  });
}
