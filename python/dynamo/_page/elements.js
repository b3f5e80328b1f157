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
