/* Code generated from python/dynamo/_page by go generate ./gocore/server/openai. DO NOT EDIT. */
// What the scripts of all pages share: data, elements, numbers, axes.

const data = JSON.parse(document.getElementById("data").textContent);
const isNumber = value => typeof value === "number";
const isMissing = value => value === null || value === undefined;

function shown(number) {
  if (isMissing(number)) return "–";
  if (!isNumber(number)) return number;
  const size = Math.abs(number);
  if (size !== 0 && (size < 1e-4 || size >= 1e12)) return number.toExponential(3);
  const digits = Number.isInteger(number) ? number : Number(number.toPrecision(5));
  return digits.toLocaleString("en-US", { maximumFractionDigits: 8 });
}

// Texts become text nodes, never markup.
function fill(element, attributes, children) {
  for (const [name, text] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), text);
    else if (text !== null && text !== false) element.setAttribute(name, text === true ? "" : text);
  }
  element.append(...children.filter(child => child !== null));
  return element;
}

const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// A name that narrow windows break between its words only.
const breakable = name => name.split(/(?<=[._/])(?=.)/).flatMap((part, at) => at ? [document.createElement("wbr"), part] : [part]);

// Round numbers between two ends, about as many as asked for.
function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find(factor => factor * power >= rough) * power;
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step * 1e-9; at++) found.push(Number((at * step).toPrecision(12)));
  return found;
}

// The ends of an axis around numbers, with some room.
function extent(numbers) {
  let low = Infinity, high = -Infinity;
  for (const number of numbers) { low = Math.min(low, number); high = Math.max(high, number); }
  const room = (high - low) * 0.07 || Math.abs(high) * 0.1 || 1;
  return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
}
// Charts of lines and of points: axes, curves, what the pointer shows, and a table of the values.

const MARGIN = { left: 54, right: 12, top: 22, bottom: 36 };
const ROWS_OF_VALUES = 20;
const NEAR = 24; // pixels from the pointer to a point
const COLOURS = ["--c0", "--c1", "--c2", "--measured", "--p0", "--p3", "--p5", "--p6"];
const colour = at => `--c: var(${COLOURS[at % COLOURS.length]})`;
const tip = html("div", { class: "tip", hidden: true });

// A scale between two numbers, and where it has ticks.
function scaleOf([low, high], [from, to], logarithmic, count) {
  if (!logarithmic) {
    return { at: number => from + (number - low) / (high - low) * (to - from), ticks: ticks(low, high, count) };
  }
  const a = Math.log10(low), b = Math.log10(high);
  const every = [];
  for (let power = Math.floor(a); power <= b; power++) {
    for (const factor of b - a < 1.5 ? [1, 2, 5] : b - a < 4 ? [1, 3] : [1]) every.push(factor * 10 ** power);
  }
  return { at: number => from + (Math.log10(number) - a) / (b - a) * (to - from), ticks: every.filter(tick => tick >= low && tick <= high) };
}

// A chart without curves yet: axes whose names have their units, ticks, and shades, stretches [from, to] of x. Ticks of x may be
// given as [place, name]; both axes may be logarithmic.
function frameOf(box, { height, x, y, xName, yName, logarithmic = false, logarithmicUp = false, xTicks = null, label, shades = [] }) {
  const width = Math.max(260, box.clientWidth), right = width - MARGIN.right, bottom = height - MARGIN.bottom;
  const across = scaleOf(x, [MARGIN.left, right], logarithmic, Math.max(3, width / 110));
  const up = scaleOf(y, [bottom, MARGIN.top], logarithmicUp, 5);
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
  for (const [from, to] of shades) {
    const left = across.at(from), length = Math.max(1, across.at(to) - left);
    chart.append(svg("rect", { class: "shade", x: left, y: MARGIN.top, width: length, height: bottom - MARGIN.top }),
      svg("path", { class: "shade-edge", d: `M${left} ${MARGIN.top}V${bottom}` }));
  }
  for (const [tick, name] of xTicks || across.ticks.map(tick => [tick, shown(tick)])) {
    chart.append(svg("path", { class: "tick", d: `M${across.at(tick)} ${MARGIN.top}V${bottom}` }),
      svg("text", { x: across.at(tick), y: bottom + 16, "text-anchor": tick >= x[1] * 0.97 ? "end" : "middle" }, name));
  }
  for (const tick of up.ticks) {
    chart.append(svg("path", { class: "tick", d: `M${MARGIN.left} ${up.at(tick)}H${right}` }),
      svg("text", { x: MARGIN.left - 6, y: up.at(tick) + 4, "text-anchor": "end" }, shown(tick)));
  }
  chart.append(svg("text", { class: "name", x: right, y: height - 4, "text-anchor": "end" }, xName),
    svg("text", { class: "name", x: 0, y: 12 }, yName));
  return { chart, width, right, bottom, across, up };
}

// A chart of curves in a box: each has points [x, y], of which y may be missing; one of the kind "dots" is not connected. tell
// returns texts about a place, a part of the width, for the pointer and for the table below; rows are places for that table, if
// even distances are not the ones. A bound is a number { x } or { y } in milliseconds that the service level sets, or has a name.
function drawCurves(box, curves, { tell, rows = null, bound = {}, ...axes }) {
  const { chart, width, right, bottom, across, up } = frameOf(box, axes), { x, y, label } = axes;
  for (const curve of curves) {
    if (curve.kind === "dots") chart.append(...dotsOf(curve.points, curve.style, across, up));
    else chart.append(svg("path", { class: `curve ${curve.kind || ""}`, style: curve.style || null, d: pathOf(curve.points, across, up) }));
  }
  if (bound.x >= x[0] && bound.x <= x[1]) {
    const at = across.at(bound.x), late = at > width * 0.7;
    chart.append(svg("path", { class: "bound", d: `M${at} ${MARGIN.top}V${bottom}` }),
      svg("text", { class: "bound-name", x: at + (late ? -4 : 4), y: bottom - 5, "text-anchor": late ? "end" : "start" },
        bound.name || `SLA ${shown(bound.x)} ms`));
  }
  if (bound.y >= y[0] && bound.y <= y[1]) {
    chart.append(svg("path", { class: "bound", d: `M${MARGIN.left} ${up.at(bound.y)}H${right}` }),
      svg("text", { class: "bound-name", x: right - 4, y: up.at(bound.y) - 4, "text-anchor": "end" }, bound.name || `SLA ${shown(bound.y)} ms`));
  }
  const guide = svg("path", { class: "guide" });
  chart.append(guide);
  chart.addEventListener("pointermove", event => {
    const inner = chart.getBoundingClientRect(), at = (event.clientX - inner.left) * width / inner.width;
    const lines = at >= MARGIN.left && at <= right ? tell((at - MARGIN.left) / (right - MARGIN.left)) : null;
    tip.hidden = lines === null;
    if (lines === null) { guide.removeAttribute("d"); return; }
    guide.setAttribute("d", `M${at} ${MARGIN.top}V${bottom}`);
    showTip(box, event, lines);
  });
  chart.addEventListener("pointerleave", () => { tip.hidden = true; guide.removeAttribute("d"); });
  const places = rows || Array.from({ length: ROWS_OF_VALUES }, (_, at) => (at + 0.5) / ROWS_OF_VALUES);
  putChart(box, chart, label, () => places.map(place => tell(place, true)));
}

// A chart of points in a box, each [x, y, style, lines]; the pointer shows the lines of the nearest one, the table below those of
// all. band is a factor around the line on which both are equal, for axes that are logarithmic and have the same ends.
function drawPoints(box, points, { band, ...axes }) {
  const { chart, width, across, up } = frameOf(box, { logarithmic: true, logarithmicUp: true, ...axes });
  const [low, high] = axes.x, corner = (x, y) => `${across.at(x).toFixed(1)} ${up.at(y).toFixed(1)}`;
  chart.append(
    svg("path", { class: "band", d: `M${[[low, low], [low, low * band], [high / band, high], [high, high], [high, high / band],
      [low * band, low]].map(([x, y]) => corner(x, y)).join("L")}Z` }),
    svg("path", { class: "guide", d: `M${corner(low, low)}L${corner(high, high)}` }));
  const dots = points.map(([x, y, style]) => dotsOf([[x, y]], style, across, up)[0]);
  chart.append(...dots);
  let marked = null;
  const mark = dot => { marked?.classList.remove("near"); dot?.classList.add("near"); marked = dot; };
  chart.addEventListener("pointermove", event => {
    const inner = chart.getBoundingClientRect(), scale = width / inner.width;
    const left = (event.clientX - inner.left) * scale, top = (event.clientY - inner.top) * scale;
    const far = points.map(([x, y]) => Math.hypot(across.at(x) - left, up.at(y) - top));
    const nearest = far.indexOf(Math.min(...far));
    tip.hidden = far[nearest] > NEAR;
    mark(tip.hidden ? null : dots[nearest]);
    if (!tip.hidden) showTip(box, event, points[nearest][3]);
  });
  chart.addEventListener("pointerleave", () => { tip.hidden = true; mark(null); });
  putChart(box, chart, axes.label, () => points.map(point => point[3]));
}

const dotsOf = (points, style, across, up) =>
  points.map(([x, y]) => svg("circle", { class: "dot", style: style || null, cx: across.at(x).toFixed(1), cy: up.at(y).toFixed(1), r: 3.5 }));

// Puts a chart and the table of its values where those before were; rows returns their lines.
function putChart(box, chart, label, rows) {
  const before = box.querySelector("details.values");
  box.replaceChildren(chart, valuesOf(label, rows, before !== null && before.open));
}

// What the pointer would show, as a table that opens: for screen readers, and to copy from.
function valuesOf(label, rowsOf, open) {
  const made = html("details", { class: "values", open }, html("summary", {}, "Values"));
  const fill = () => {
    if (!made.open || made.children.length > 1) return;
    const rows = rowsOf().filter(lines => lines !== null);
    const named = rows.map(([, ...lines]) => new Map(lines.map(line => {
      const at = line.lastIndexOf(": ");
      return at < 0 ? ["", line] : [line.slice(0, at), line.slice(at + 2)];
    })));
    const names = [...new Set(named.flatMap(row => [...row.keys()]))];
    const head = html("tr", {}, html("td"), ...names.map(name => html("th", { scope: "col", class: "number" }, name || "value")));
    made.append(html("div", { class: "scroll", tabindex: 0 }, html("table", {}, html("caption", {}, label), html("thead", {}, head),
      html("tbody", {}, ...rows.map(([place], at) => html("tr", {}, html("th", { scope: "row", class: "text" }, place),
        ...names.map(name => html("td", {}, named[at].get(name) || "–"))))))));
  };
  made.addEventListener("toggle", fill);
  fill();
  return made;
}

function pathOf(points, across, up) {
  let path = "", open = false;
  for (const [x, y] of points) {
    if (isMissing(y)) { open = false; continue; }
    path += `${open ? "L" : "M"}${across.at(x).toFixed(1)} ${up.at(y).toFixed(1)}`;
    if (!open) path += "h.01"; // a point by itself shows, too
    open = true;
  }
  return path;
}

// Shows lines of text beside the pointer, the first one bold.
function showTip(box, event, [first, ...others]) {
  tip.hidden = false;
  tip.replaceChildren(html("b", {}, first), ...others.flatMap(line => [line, html("br")]));
  box.append(tip);
  const inner = box.getBoundingClientRect(), left = event.clientX - inner.left;
  tip.style.top = `${event.clientY - inner.top + 14}px`;
  tip.style.left = `${Math.min(left + 14, Math.max(0, inner.width - tip.offsetWidth))}px`;
}

// Draws now, and again whenever the page has another width.
function redrawn(draw) {
  const page = document.querySelector("main");
  let width = 0;
  new ResizeObserver(() => {
    if (page.clientWidth === width) return;
    width = page.clientWidth;
    draw();
  }).observe(page);
}
