// Parallel coordinates: an axis for each knob that varies and for each objective, a line for each point.

const parallelBox = document.getElementById("parallel");
const AXIS = { top: 58, height: 240, bottom: 16, side: 62, apart: 112, values: 8, row: 62, edge: 12 };
const NONE = "–";

// An axis from one place to another, upright or, where there is no room beside each other, lying.
function axisOf(name, points, [start, end]) {
  const at = point => { const found = value(point, name); return isMissing(found) ? NONE : found; };
  const distinct = [...new Set(points.map(at))];
  const numeric = distinct.every(isNumber);
  const isKnob = data.knobs.includes(name);
  if (numeric && (!isKnob || distinct.length > AXIS.values)) {
    const [from, to] = extent(distinct), place = number => start + (number - from) / (to - from) * (end - start);
    return { name, labels: ticks(from, to, 5).map(number => ({ text: shown(number), place: place(number), term: null })), place: point => place(at(point)) };
  }
  distinct.sort(inOrder);
  const place = found => start + (distinct.length > 1 ? distinct.indexOf(found) / (distinct.length - 1) : 0.5) * (end - start);
  return { name, labels: distinct.map(found => ({ text: isKnob ? plain(found) : shown(found), place: place(found), term: isKnob && found !== NONE ? String(found) : null })), place: point => place(at(point)) };
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
  const names = [...varied, ...results], width = parallelBox.clientWidth;
  const lying = width < 2 * AXIS.side + (names.length - 1) * AXIS.apart;
  const ends = lying ? [AXIS.edge, width - AXIS.edge] : [AXIS.top + AXIS.height, AXIS.top];
  const axes = names.map(name => axisOf(name, every, ends));
  const across = at => axes.length > 1 ? AXIS.side + at * (width - 2 * AXIS.side) / (axes.length - 1) : width / 2;
  const offset = lying ? at => 24 + at * AXIS.row : across;
  const height = lying ? (names.length - 1) * AXIS.row + 48 : AXIS.top + AXIS.height + AXIS.bottom;
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Parallel coordinates" });
  for (const point of points.sort((a, b) => layer(a) - layer(b))) chart.append(lineOf(point, axes, offset, lying));
  axes.forEach((axis, at) => chart.append(...axisMarks(axis, offset(at), lying ? width : 0)));
  parallelBox.replaceChildren(chart);
}

function lineOf(point, axes, offset, lying) {
  const corners = axes.map((axis, at) => lying ? `${axis.place(point)},${offset(at)}` : `${offset(at)},${axis.place(point)}`);
  const look = [isIn(point) ? "" : "out", point.front ? "front" : "", point.id === state.selected ? "selected" : ""].join(" ");
  return svg("polyline", {
    class: `line t${topology(point)} ${look}`, points: corners.join(" "),
    onclick: () => select(point.id),
  }, svg("title", {}, `Point ${point.id}: ${knobText(point)}`));
}

// The marks of an axis at an offset. Width is that of the chart if axes lie, else 0.
function axisMarks(axis, offset, width) {
  const name = width ? svg("text", { class: "name", x: AXIS.edge, y: offset - 8 }, title(axis.name))
    : svg("text", { class: "name", x: offset, y: 14, "text-anchor": "middle" },
      ...broken(title(axis.name)).map((text, at) => svg("tspan", { x: offset, dy: at ? 14 : 0 }, text)));
  const most = width ? Math.max(4, Math.floor((width / axis.labels.length - 8) / 7)) : 13;
  const marks = axis.labels.map(label => {
    const short = label.text.length > most ? `${label.text.slice(0, most - 1)}…` : label.text, wide = 7 * short.length + 4;
    const x = width ? Math.min(Math.max(0, label.place - wide / 2), width - wide) : offset + 3, y = width ? offset + 4 : label.place - 8;
    const text = svg("text", { x: x + 3, y: y + 12 }, short);
    const halo = svg("rect", { class: "halo", x, y, width: wide, height: 16, rx: 3 });
    if (label.term === null) return svg("g", {}, halo, text);
    const toggle = () => toggleTerm(axis.name, label.term);
    return svg("g", {
      class: "value", tabindex: 0, role: "button", "aria-label": `filter by ${axis.name} ${label.text}`, onclick: toggle,
      onkeydown: event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); } },
    }, halo, text, svg("title", {}, label.text));
  });
  const line = width ? `M${AXIS.edge} ${offset}H${width - AXIS.edge}` : `M${offset} ${AXIS.top}V${AXIS.top + AXIS.height}`;
  return [svg("path", { class: "axis", d: line }), name, ...marks];
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
