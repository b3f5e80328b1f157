// A figure over time: for the cluster and each worker as lines, and for each worker as a row of colours.

const MOST_LINES = 8; // With more workers they are thin and have no names.

function drawSeries() {
  if (!data.series) return;
  document.getElementById("series-section").hidden = false;
  const found = data.series.figures.find(figure => figure.name === document.getElementById("figure").value);
  const seconds = data.series.step_ms / 1000, count = data.series.windows;
  document.getElementById("step").textContent = `windows of ${shown(seconds)} s`;
  const curves = found.workers.map((values, at) => ({ values, name: data.series.workers[at], style: colour(at), kind: found.workers.length > MOST_LINES ? "thin" : "" }))
    .filter(curve => curve.values.some(value => !isMissing(value)));
  if (found.cluster) curves.push({ values: found.cluster, name: "cluster", kind: "whole", style: "--c: var(--ink)" });
  const points = values => values.map((value, at) => [(at + 0.5) * seconds, value]);
  const end = count * seconds;
  const faults = (data.faults || []).map(fault => ({ ...fault, until: isMissing(fault.until) ? end : Math.min(fault.until, end) })).filter(fault => fault.at < end);
  const every = curves.flatMap(curve => curve.values).filter(value => !isMissing(value));
  const high = every.reduce((most, value) => Math.max(most, value), found.bound || 0) || 1;
  drawCurves(document.getElementById("lines"), curves.map(curve => ({ ...curve, points: points(curve.values) })), {
    height: 280, x: [0, end], shades: faults.map(fault => [fault.at, fault.until]), y: [0, high * 1.05], xName: "seconds", yName: found.title, label: `${found.title} over time`, bound: { y: found.bound },
    tell: (part, all = false) => {
      const at = Math.min(count - 1, Math.floor(part * count));
      const told = curves.filter(curve => !isMissing(curve.values[at])).map(curve => `${curve.name}: ${shown(curve.values[at])}`);
      const wrong = faults.filter(fault => fault.at < (at + 1) * seconds && fault.until >= at * seconds).map(fault => `fault: ${fault.name}`);
      return [`${shown(at * seconds)} s`, ...told.slice(all ? 0 : -MOST_LINES - 1), ...wrong.slice(0, MOST_LINES)];
    },
  });
  const named = curves.length <= MOST_LINES + 1;
  document.getElementById("lines-legend").replaceChildren(
    ...(named ? curves : curves.slice(-1)).map(curve => html("span", {}, html("span", { class: "swatch", style: curve.style }), curve.name)),
    ...(faults.length ? [html("span", {}, html("span", { class: "swatch", style: "--c: var(--p11)" }), "shaded: faults, from when they happen until they are over")] : []));
  drawHeat(found, count, seconds);
}

// Workers from top to bottom, time from left to right, the figure as a colour: pale is little.
function drawHeat(found, count, seconds) {
  const box = document.getElementById("heat"), title = document.getElementById("heat-title");
  const rows = found.workers.map((values, at) => ({ values, name: data.series.workers[at] })).filter(row => row.values.some(value => !isMissing(value)));
  title.hidden = box.hidden = rows.length < 2;
  if (box.hidden) return;
  const rowHeight = Math.max(3, Math.min(22, Math.floor(420 / rows.length)));
  const canvas = html("canvas", { width: count, height: rows.length, role: "img", "aria-label": `${found.title} by worker and time`, style: `height: ${rowHeight * rows.length}px; image-rendering: pixelated` });
  const high = rows.flatMap(row => row.values).reduce((most, value) => isMissing(value) ? most : Math.max(most, value), 0) || 1;
  const style = getComputedStyle(document.documentElement);
  const [pale, full] = ["--raised", "--c1"].map(name => rgb(style.getPropertyValue(name).trim()));
  const context = canvas.getContext("2d"), image = context.createImageData(count, rows.length);
  rows.forEach((row, y) => row.values.forEach((value, x) => {
    const part = isMissing(value) ? 0 : Math.sqrt(Math.max(0, value / high)), at = 4 * (y * count + x);
    for (let channel = 0; channel < 3; channel++) image.data[at + channel] = pale[channel] + part * (full[channel] - pale[channel]);
    image.data[at + 3] = isMissing(value) ? 0 : 255;
  }));
  context.putImageData(image, 0, 0);
  canvas.addEventListener("pointermove", event => {
    const inner = canvas.getBoundingClientRect();
    const x = Math.min(count - 1, Math.max(0, Math.floor((event.clientX - inner.left) / inner.width * count)));
    const row = rows[Math.min(rows.length - 1, Math.max(0, Math.floor((event.clientY - inner.top) / inner.height * rows.length)))];
    showTip(box, event, [row.name, `${shown(x * seconds)} s: ${shown(row.values[x])}`]);
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  const gradient = `background: linear-gradient(to right, var(--raised), var(--c1))`;
  box.replaceChildren(canvas, html("div", { class: "scale" }, "0", html("i", { style: gradient }), shown(high),
    html("span", {}, `${rows[0].name} at the top, ${rows[rows.length - 1].name} at the bottom`)));
}

// The channels of a colour in the form #rgb or #rrggbb.
function rgb(text) {
  const digits = text.slice(1), size = digits.length / 3;
  return [0, 1, 2].map(at => parseInt(digits.slice(at * size, (at + 1) * size).repeat(3 - size), 16));
}
