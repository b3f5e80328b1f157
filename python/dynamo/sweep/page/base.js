// What all parts share: the data, and what the reader has chosen.

const byId = new Map(data.points.map(point => [point.id, point]));
const column = new Map(data.figures.map((name, at) => [name, at]));
const state = { selected: null, accepts: () => true, missed: false, x: "", y: "", sort: { name: "", down: false }, all: false, runs: false };

const figure = (point, name) => column.has(name) ? point.figures[column.get(name)] : null;
const interval = (point, name) => point.intervals && column.has(name) ? point.intervals[column.get(name)] : null;
// How far a figure of such a point was from measured ones, as a part of it; null where that is not known.
const errorOf = (point, name) => {
  const errors = data.timings[point.timing].errors;
  return errors && column.has(name) ? errors[column.get(name)] : null;
};
function errorInterval(point, name) {
  const part = errorOf(point, name), number = figure(point, name);
  return part === null || !isNumber(number) ? null : [number * (1 - part), number * (1 + part)];
}
const title = name => data.titles[name] || name;
// Orders values of a column: numbers, then texts.
function inOrder(a, b) {
  if (isNumber(a) || isNumber(b)) return isNumber(a) && isNumber(b) ? a - b : isNumber(a) ? -1 : 1;
  return String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
}

// Any column of a point: a knob, a figure, or what it is otherwise.
function value(point, name) {
  if (name in point.knobs) return point.knobs[name];
  if (["id", "status", "topology", "workers"].includes(name)) return point[name];
  return figure(point, name);
}

// Settings are written as they are in a specification: 16384.
const plain = found => isMissing(found) ? "–" : String(found);

function withInterval(number, ends) {
  return ends && ends[0] < ends[1] ? `${shown(number)} (${shown(ends[0])} to ${shown(ends[1])})` : shown(number);
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
