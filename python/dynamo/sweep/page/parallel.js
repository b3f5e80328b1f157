// Parallel coordinates: an axis for each knob that varies and for each objective, a line for each point.

const parallelBox = document.getElementById("parallel");
const AXIS = { top: 58, height: 240, highest: 720, bottom: 16, side: 62, apart: 112, values: 8, row: 62, edge: 12 };
// A line of a label, a character of it, the most lines, and the room for a label where axes lie.
const LABEL = { line: 14, letter: 6.5, lines: 8, room: 100 };
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
  const most = Math.max(...varied.map(name => new Set(every.map(point => value(point, name))).size), 1);
  const high = Math.min(AXIS.highest, Math.max(AXIS.height, most * (LABEL.line + 4)));
  const ends = lying ? [AXIS.edge, width - AXIS.edge] : [AXIS.top + high, AXIS.top];
  const axes = names.map(name => axisOf(name, every, ends));
  const across = at => axes.length > 1 ? AXIS.side + at * (width - 2 * AXIS.side) / (axes.length - 1) : width / 2;
  for (const axis of axes) layOut(axis, lying, lying ? width : axes.length > 1 ? across(1) - across(0) : width / 2);
  const below = at => 24 + axes.slice(0, at).reduce((sum, axis) => sum + AXIS.row + (axis.lines - 1) * LABEL.line, 0);
  const offset = lying ? below : across;
  const height = lying ? below(axes.length) - AXIS.row + 24 + LABEL.line : AXIS.top + high + AXIS.bottom;
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Parallel coordinates" });
  for (const point of points.sort((a, b) => layer(a) - layer(b))) chart.append(lineOf(point, axes, offset, lying));
  axes.forEach((axis, at) => chart.append(...axisMarks(axis, offset(at), lying ? width : 0, high)));
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

// Drops labels that are too near to the one before, and breaks the others into lines for the room between axes.
function layOut(axis, lying, room) {
  const longest = Math.max(...axis.labels.map(label => label.text.length));
  const apart = lying ? 1.5 * Math.min(LABEL.room, LABEL.letter * longest + 8) : LABEL.line;
  let last = -Infinity;
  axis.labels.sort((a, b) => a.place - b.place);
  axis.labels = axis.labels.filter(label => label.place - last >= apart && (last = label.place, true));
  const places = axis.labels.map(label => label.place);
  const between = Math.min(...places.slice(1).map((place, at) => place - places[at]), lying ? Infinity : AXIS.height);
  // Lying ones have a place in their middle, but for the first and the last, which stay within the chart.
  const wide = lying ? Math.min(room, between * (places.length > 2 ? 2 / 3 : 1 / 2)) : room - 4;
  const most = lying ? LABEL.lines : Math.max(1, Math.min(LABEL.lines, Math.floor(between / LABEL.line)));
  for (const label of axis.labels) label.lines = inLines(label.text, Math.max(4, Math.floor((wide - 8) / LABEL.letter)), most);
  axis.lines = Math.max(...axis.labels.map(label => label.lines.length));
}

// A text in up to some lines of so many characters, broken after words.
function inLines(text, wide, most) {
  const lines = [""];
  for (const part of text.split(/(?<=[._ ])/)) {
    if (lines.at(-1) && (lines.at(-1) + part).trimEnd().length > wide) lines.push("");
    lines[lines.length - 1] += part;
  }
  if (lines.length > most) lines.splice(most - 1, lines.length, lines.slice(most - 1).join(""));
  return lines.map(line => line.trimEnd()).map(line => line.length > wide ? `${line.slice(0, wide - 1)}…` : line);
}

// The marks of an axis at an offset. Width is that of the chart if axes lie, else 0.
function axisMarks(axis, offset, width, high) {
  const name = width ? svg("text", { class: "name", x: AXIS.edge, y: offset - 8 }, title(axis.name))
    : svg("text", { class: "name", x: offset, y: 14, "text-anchor": "middle" },
      ...inLines(title(axis.name), 16, 3).map((line, at) => svg("tspan", { x: offset, dy: at ? LABEL.line : 0 }, line)));
  const marks = axis.labels.map(label => {
    const wide = LABEL.letter * Math.max(...label.lines.map(line => line.length)) + 4, tall = LABEL.line * label.lines.length + 2;
    const x = width ? Math.min(Math.max(0, label.place - wide / 2), width - wide) : offset + 3, y = width ? offset + 4 : Math.min(label.place - tall / 2, AXIS.top + high + AXIS.bottom - tall);
    const text = svg("text", { x: x + 3, y: y + 12 }, ...label.lines.map((line, at) => svg("tspan", { x: x + 3, dy: at ? LABEL.line : 0 }, line)));
    const halo = svg("rect", { class: "halo", x, y, width: wide, height: tall, rx: 3 });
    if (label.term === null) return svg("g", {}, halo, text);
    const toggle = () => toggleTerm(axis.name, label.term);
    return svg("g", {
      class: "value", tabindex: 0, role: "button", "aria-label": `filter by ${axis.name} ${label.text}`, onclick: toggle,
      onkeydown: event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); } },
    }, halo, text, svg("title", {}, label.text));
  });
  const line = width ? `M${AXIS.edge} ${offset}H${width - AXIS.edge}` : `M${offset} ${AXIS.top}V${AXIS.top + high}`;
  return [svg("path", { class: "axis", d: line }), name, ...marks];
}
