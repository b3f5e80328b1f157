// Parallel coordinates: an axis for each knob that varies and for each objective, a line for each point.

const parallelBox = document.getElementById("parallel");
const AXIS = { top: 58, height: 240, bottom: 16, side: 62, apart: 112, values: 8 };
const NONE = "–";

function axisOf(name, points) {
  const at = point => { const found = value(point, name); return isMissing(found) ? NONE : found; };
  const distinct = [...new Set(points.map(at))];
  const numeric = distinct.every(isNumber);
  const low = AXIS.top + AXIS.height, isKnob = data.knobs.includes(name);
  if (numeric && (!isKnob || distinct.length > AXIS.values)) {
    const [from, to] = extent(distinct), y = number => low - (number - from) / (to - from) * AXIS.height;
    return { name, labels: ticks(from, to, 5).map(number => ({ text: shown(number), y: y(number), term: null })), y: point => y(at(point)) };
  }
  distinct.sort(inOrder);
  const y = found => low - (distinct.length > 1 ? distinct.indexOf(found) / (distinct.length - 1) : 0.5) * AXIS.height;
  return { name, labels: distinct.map(found => ({ text: isKnob ? plain(found) : shown(found), y: y(found), term: isKnob && found !== NONE ? String(found) : null })), y: point => y(at(point)) };
}

function drawParallel() {
  const results = [...new Set([...data.objectives.map(objective => objective.figure), "gpus"])].filter(name => column.has(name));
  const points = visible().filter(point => results.every(name => isNumber(figure(point, name))));
  const varied = data.knobs.filter(name => new Set(data.points.map(point => value(point, name))).size > 1);
  if (!points.length) {
    parallelBox.replaceChildren(html("p", { class: "none" }, "No point with results is left by the filter."));
    return;
  }
  const every = data.points.filter(point => results.every(name => isNumber(figure(point, name))) && (isIn(point) || state.missed));
  const axes = [...varied, ...results].map(name => axisOf(name, every));
  const width = Math.max(parallelBox.clientWidth, 2 * AXIS.side + (axes.length - 1) * AXIS.apart);
  const x = at => axes.length > 1 ? AXIS.side + at * (width - 2 * AXIS.side) / (axes.length - 1) : width / 2;
  const height = AXIS.top + AXIS.height + AXIS.bottom;
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Parallel coordinates" });
  for (const point of points.sort((a, b) => layer(a) - layer(b))) chart.append(lineOf(point, axes, x));
  axes.forEach((axis, at) => chart.append(...axisMarks(axis, x(at))));
  parallelBox.replaceChildren(chart);
}

function lineOf(point, axes, x) {
  const look = [isIn(point) ? "" : "out", point.front ? "front" : "", point.id === state.selected ? "selected" : ""].join(" ");
  return svg("polyline", {
    class: `line t${topology(point)} ${look}`, points: axes.map((axis, at) => `${x(at)},${axis.y(point)}`).join(" "),
    onclick: () => select(point.id),
  }, svg("title", {}, `Point ${point.id}: ${knobText(point)}`));
}

function axisMarks(axis, x) {
  const name = svg("text", { class: "name", x, y: 14, "text-anchor": "middle" },
    ...broken(title(axis.name)).map((text, at) => svg("tspan", { x, dy: at ? 14 : 0 }, text)));
  const marks = axis.labels.map(label => {
    const text = svg("text", { x: x + 6, y: label.y + 4 }, label.text.length > 13 ? `${label.text.slice(0, 12)}…` : label.text);
    const halo = svg("rect", { class: "halo", x: x + 3, y: label.y - 8, width: 7 * Math.min(13, label.text.length) + 4, height: 16, rx: 3 });
    if (label.term === null) return svg("g", {}, halo, text);
    const toggle = () => toggleTerm(axis.name, label.term);
    return svg("g", {
      class: "value", tabindex: 0, role: "button", "aria-label": `filter by ${axis.name} ${label.text}`, onclick: toggle,
      onkeydown: event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); } },
    }, halo, text, svg("title", {}, label.text));
  });
  return [svg("path", { class: "axis", d: `M${x} ${AXIS.top}V${AXIS.top + AXIS.height}` }), name, ...marks];
}

// A name in up to three short lines.
function broken(name) {
  const lines = [""];
  for (const part of name.split(/(?<=[._ ])/)) {
    if (lines.at(-1) && (lines.at(-1) + part).length > 15 && lines.length < 3) lines.push("");
    lines[lines.length - 1] += part;
  }
  return lines;
}
