// What all parts share: the data, what the reader has chosen, elements, numbers.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = new Map(data.points.map(point => [point.id, point]));
const column = new Map(data.figures.map((name, at) => [name, at]));
const state = { selected: null, accepts: () => true, missed: false, x: "", y: "", sort: { name: "", down: false }, all: false };

const figure = (point, name) => column.has(name) ? point.figures[column.get(name)] : null;
const interval = (point, name) => point.intervals && column.has(name) ? point.intervals[column.get(name)] : null;
const title = name => data.titles[name] || name;
const isNumber = value => typeof value === "number";
const isMissing = value => value === null || value === undefined;

// Orders values of a column: numbers, then texts.
function inOrder(a, b) {
  if (isNumber(a) || isNumber(b)) return isNumber(a) && isNumber(b) ? a - b : isNumber(a) ? -1 : 1;
  return String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
}

// Any column of a point: a knob, a figure, or what it is otherwise.
function value(point, name) {
  if (name in point.knobs) return point.knobs[name];
  if (name === "id" || name === "status" || name === "topology") return point[name];
  return figure(point, name);
}

function shown(number) {
  if (isMissing(number)) return "–";
  if (!isNumber(number)) return number;
  const size = Math.abs(number);
  if (size !== 0 && (size < 1e-4 || size >= 1e12)) return number.toExponential(3);
  const digits = Number.isInteger(number) ? number : Number(number.toPrecision(5));
  return digits.toLocaleString("en-US", { maximumFractionDigits: 8 });
}

// Settings are written as they are in a specification: 16384.
const plain = found => isMissing(found) ? "–" : String(found);

function withInterval(number, ends) {
  return ends && ends[0] < ends[1] ? `${shown(number)} (${shown(ends[0])} to ${shown(ends[1])})` : shown(number);
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

// Circle, square, triangle: topologies differ without colours, too.
function shape(kind, size) {
  const s = size;
  return [`M${-s} 0a${s} ${s} 0 1 0 ${2 * s} 0a${s} ${s} 0 1 0 ${-2 * s} 0Z`, `M${-s} ${-s}H${s}V${s}H${-s}Z`,
    `M0 ${-1.2 * s}L${1.2 * s} ${s}H${-1.2 * s}Z`, `M0 ${-1.4 * s}L${1.4 * s} 0L0 ${1.4 * s}L${-1.4 * s} 0Z`][kind];
}

const DIAMOND = 3;
const topology = point => data.topologies.indexOf(point.topology) % 3;
const isIn = point => point.status === "ok";
// Marks are drawn in this order, the selected point on top.
const layer = point => (point.id === state.selected ? 3 : point.front ? 2 : isIn(point) ? 1 : 0);

// The points that the filter and the check box leave.
const visible = () => data.points.filter(point => (isIn(point) || state.missed) && state.accepts(point));

const knobText = point =>
  data.knobs.filter(name => name in point.knobs).map(name => `${name} ${plain(point.knobs[name])}`).join(", ");
