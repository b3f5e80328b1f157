// The picture of two figures: points, hull of each topology, error bars, measurements.

const paretoBox = document.getElementById("pareto");
const ROOM = { left: 58, right: 14, top: 10, bottom: 42 }; // Beside the plot, for names of axes.
const MOST_BARS = 40; // With more points, only those that no other one beats have error bars.
let placed = []; // What can be selected: point, or measurement, and where it is.

function places() {
  const both = visible().filter(point => isNumber(figure(point, state.x)) && isNumber(figure(point, state.y)));
  const measured = data.measured.filter(row => isNumber(row.figures[state.x]) && isNumber(row.figures[state.y]));
  const few = both.length <= MOST_BARS;
  return {
    points: both.map(point => ({
      point, x: figure(point, state.x), y: figure(point, state.y),
      bars: few || point.front || point.id === state.selected ? [interval(point, state.x), interval(point, state.y)] : [null, null],
      errors: point.front || point.id === state.selected ? [errorInterval(point, state.x), errorInterval(point, state.y)] : [null, null],
    })),
    measured: measured.map(row => ({
      row, x: row.figures[state.x], y: row.figures[state.y],
      bars: [row.intervals[state.x] || null, row.intervals[state.y] || null], errors: [null, null],
    })),
  };
}

function drawPareto() {
  const found = places(), every = [...found.points, ...found.measured];
  tip.hidden = true;
  placed = [];
  if (!every.length) {
    paretoBox.replaceChildren(html("p", { class: "none" }, "No point with both figures is left by the filter."), tip);
    return;
  }
  const width = Math.max(280, paretoBox.clientWidth), height = Math.round(Math.min(480, Math.max(280, width * 0.62)));
  const [x0, x1] = extent(withNearBounds(state.x, every.flatMap(at => [at.x, ...(at.bars[0] || []), ...(at.errors[0] || [])])));
  const [y0, y1] = extent(withNearBounds(state.y, every.flatMap(at => [at.y, ...(at.bars[1] || []), ...(at.errors[1] || [])])));
  const px = number => ROOM.left + (number - x0) / (x1 - x0) * (width - ROOM.left - ROOM.right);
  const py = number => height - ROOM.bottom - (number - y0) / (y1 - y0) * (height - ROOM.top - ROOM.bottom);
  const focused = document.activeElement && document.activeElement.id === "pareto-svg";
  const chart = svg("svg", {
    id: "pareto-svg", viewBox: `0 0 ${width} ${height}`, width, height, tabindex: 0, role: "application",
    "aria-label": `${title(state.y)} against ${title(state.x)}, ${found.points.length} points. Arrow keys select.`,
    onpointermove: hover, onpointerleave: () => { tip.hidden = true; }, onclick: click, onkeydown: walk,
  }, ...frame(width, height, [x0, x1], [y0, y1], px, py), ...hullLines(px, py), ...limits(width, height, px, py));
  for (const at of found.points.sort((a, b) => layer(a.point) - layer(b.point))) chart.append(...pointMarks(at, px, py));
  for (const at of found.measured) chart.append(...measuredMarks(at, px, py));
  paretoBox.replaceChildren(chart, tip);
  if (focused) chart.focus();
}

function frame(width, height, [x0, x1], [y0, y1], px, py) {
  const bottom = height - ROOM.bottom, right = width - ROOM.right, parts = [];
  for (const number of ticks(x0, x1, Math.max(3, width / 110))) {
    parts.push(svg("path", { class: "tick", d: `M${px(number)} ${ROOM.top}V${bottom}` }),
      svg("text", { x: px(number), y: bottom + 16, "text-anchor": "middle" }, shown(number)));
  }
  for (const number of ticks(y0, y1, 5)) {
    parts.push(svg("path", { class: "tick", d: `M${ROOM.left} ${py(number)}H${right}` }),
      svg("text", { x: ROOM.left - 6, y: py(number) + 4, "text-anchor": "end" }, shown(number)));
  }
  const middle = (ROOM.top + bottom) / 2;
  parts.push(svg("path", { class: "axis", d: `M${ROOM.left} ${ROOM.top}V${bottom}H${right}` }),
    svg("text", { class: "name", x: (ROOM.left + right) / 2, y: height - 6, "text-anchor": "middle" }, axisTitle(state.x)),
    svg("text", { class: "name", transform: `translate(13 ${middle}) rotate(-90)`, "text-anchor": "middle" }, axisTitle(state.y)));
  return parts;
}

// The bounds of the service level on a figure.
const boundsOn = name => (data.points.find(point => point.sla && point.sla.length) || { sla: [] }).sla
  .filter(verdict => verdict.figure === name).map(verdict => "at_most" in verdict ? verdict.at_most : verdict.at_least);

// Numbers with the bounds on them that are not so far away that they would push the points together.
function withNearBounds(name, numbers) {
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)], room = Math.max(high - low, 0.1 * Math.abs(high));
  return [...numbers, ...boundsOn(name).filter(bound => bound >= low - room && bound <= high + room)];
}

// Lines of the bounds on either axis, where the chart has them.
function limits(width, height, px, py) {
  const right = width - ROOM.right, bottom = height - ROOM.bottom, text = { class: "bound-name" };
  const across = boundsOn(state.x).map(bound => [bound, px(bound)]).filter(([, x]) => x > ROOM.left && x < right);
  const up = boundsOn(state.y).map(bound => [bound, py(bound)]).filter(([, y]) => y > ROOM.top && y < bottom);
  return [...across.flatMap(([bound, x]) => [svg("path", { class: "bound", d: `M${x} ${ROOM.top}V${bottom}` }),
    svg("text", { ...text, x: x + (x > width * 0.7 ? -4 : 4), y: bottom - 5, "text-anchor": x > width * 0.7 ? "end" : "start" }, `SLA ${shown(bound)}`)]),
  ...up.flatMap(([bound, y]) => [svg("path", { class: "bound", d: `M${ROOM.left} ${y}H${right}` }),
    svg("text", { ...text, x: right - 4, y: y - 4, "text-anchor": "end" }, `SLA ${shown(bound)}`)])];
}

function axisTitle(name) {
  const objective = data.objectives.find(found => found.figure === name);
  return objective ? `${title(name)} (${objective.maximize ? "more" : "less"} is better)` : title(name);
}

// Of the objectives only: of other figures it is not known what is better.
function hullLines(px, py) {
  const wanted = data.objectives.map(objective => objective.figure);
  if (![state.x, state.y].every(name => wanted.includes(name)) || state.x === state.y) return [];
  return Object.entries(data.hulls).map(([name, ids]) => {
    const corners = ids.map(id => byId.get(id)).map(point => `${px(figure(point, state.x))},${py(figure(point, state.y))}`);
    return svg("polyline", { class: `hull t${data.topologies.indexOf(name) % 3}`, points: corners.join(" ") });
  });
}

function bars(at, [across, up], px, py, kind) {
  const parts = [];
  if (across) parts.push(svg("path", { class: `bar ${kind}`, d: `M${px(across[0])} ${py(at.y)}H${px(across[1])}` }));
  if (up) parts.push(svg("path", { class: `bar ${kind}`, d: `M${px(at.x)} ${py(up[0])}V${py(up[1])}` }));
  return parts;
}

function pointMarks(at, px, py) {
  const { point } = at, x = px(at.x), y = py(at.y), kind = topology(point);
  const size = point.front ? 6 : 4.5, look = isIn(point) ? (point.front ? "front" : "") : "out";
  placed.push({ point, x, y });
  const parts = isIn(point) ? [...bars(at, at.errors, px, py, `error t${kind}`), ...bars(at, at.bars, px, py, `t${kind}`)] : [];
  parts.push(svg("path", { class: `mark t${kind} ${look}`, d: shape(kind, size), transform: `translate(${x} ${y})`, "data-id": point.id }));
  if (point.id === state.selected) parts.push(svg("circle", { class: "ring", cx: x, cy: y, r: size + 5 }));
  return parts;
}

function measuredMarks(at, px, py) {
  const x = px(at.x), y = py(at.y), parts = bars(at, at.bars, px, py, "measured");
  const pair = byId.get(at.row.point), partner = pair && placed.find(other => other.point === pair);
  placed.push({ row: at.row, point: pair || null, x, y });
  if (partner) parts.push(svg("path", { class: "pair", d: `M${x} ${y}L${partner.x} ${partner.y}` }));
  parts.push(svg("path", { class: "mark measured", d: shape(DIAMOND, 5), transform: `translate(${x} ${y})` }));
  return parts;
}

function nearest(event) {
  const box = event.currentTarget.getBoundingClientRect(), scale = box.width / event.currentTarget.viewBox.baseVal.width;
  const x = (event.clientX - box.left) / scale, y = (event.clientY - box.top) / scale;
  let best = null, least = 28;
  for (const at of placed) {
    const distance = Math.hypot(at.x - x, at.y - y);
    if (distance <= least) { best = at; least = distance; }
  }
  return best;
}

function hover(event) {
  const at = nearest(event);
  tip.hidden = !at;
  if (!at) return;
  const of = name => at.row ? withInterval(at.row.figures[name], at.row.intervals[name]) : withInterval(figure(at.point, name), interval(at.point, name)) + errorText(at.point, name);
  tip.replaceChildren(html("b", {}, at.row ? `Measured: ${at.row.label}` : `Point ${at.point.id}${isIn(at.point) ? "" : `, ${at.point.status}`}`),
    ...[state.y, state.x].flatMap(name => [`${title(name)}: ${of(name)}`, html("br")]),
    at.row ? "" : knobText(at.point));
  const room = paretoBox.clientWidth, left = Math.min(Math.max(0, at.x + 14), Math.max(0, room - tip.offsetWidth));
  const below = at.y + 14 + tip.offsetHeight < paretoBox.clientHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${below ? at.y + 14 : Math.max(0, at.y - tip.offsetHeight - 14)}px`;
}

function errorText(point, name) {
  const part = errorOf(point, name);
  return part === null ? "" : `, measured error ${Math.round(100 * part)} %`;
}

function click(event) {
  const at = nearest(event);
  if (at && at.point) select(at.point.id);
}

// Arrow keys go from point to point, from left to right.
function walk(event) {
  const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, Home: -Infinity, End: Infinity }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const order = placed.filter(at => !at.row).sort((a, b) => a.x - b.x || b.y - a.y || a.point.id - b.point.id);
  const now = order.findIndex(at => at.point.id === state.selected);
  const next = order[Math.min(Math.max(now < 0 ? 0 : now + step, 0), order.length - 1)];
  if (next) select(next.point.id);
}

const POOLS = { agg: "agg: one pool", disagg: "disagg: prefill and decode pools" };

function drawLegend() {
  const entry = (text, ...marks) => html("span", {}, svg("svg", { viewBox: "-9 -7 18 14", "aria-hidden": "true" }, ...marks), text);
  const entries = data.topologies.map((name, at) => entry(POOLS[name] || name, svg("path", { class: `mark t${at % 3}`, d: shape(at % 3, 4.5) })));
  entries.push(entry("not beaten by any other", svg("path", { class: "mark front t0", d: shape(0, 5) })));
  if (Object.values(data.hulls).some(ids => ids.length > 1)) {
    entries.push(entry("best of a topology", svg("path", { class: "hull t0", d: "M-9 0H9" })));
  }
  if (data.points.some(point => point.intervals)) entries.push(entry("95 % interval", svg("path", { class: "bar t0", d: "M-8 0H8M0 -6V6" })));
  if (data.timings.some(timing => timing.errors)) {
    entries.push(entry("measured error, of those not beaten and the selected one", svg("path", { class: "bar error t0", d: "M-8 0H8M0 -6V6" })));
  }
  if (state.missed) entries.push(entry("out of the service level", svg("path", { class: "mark out", d: shape(0, 4.5) })));
  if (data.measured.length) entries.push(entry("measured", svg("path", { class: "mark measured", d: shape(DIAMOND, 5) })));
  document.getElementById("legend").replaceChildren(...entries);
}
