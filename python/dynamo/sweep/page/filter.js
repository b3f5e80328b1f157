// The filter: words and comparisons, all of which have to hold.

const filterBox = document.getElementById("filter");
const comparisons = {
  "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b,
  "=": (a, b) => a === b, "!=": (a, b) => a !== b,
};
const known = new Set([...data.knobs, ...data.figures, "id", "status", "topology", "workers"]);
const haystacks = new Map(data.points.map(point =>
  [point.id, [point.status, point.topology, point.reason || "", point.workers || "", knobText(point)].join(" ").toLowerCase()]));

// Its terms, with what is in double quotes in one piece.
const filterWords = () => filterBox.value.match(/(?:"[^"]*"|[^\s"])+/g) || [];

function term(text) {
  const parts = /^([^<>=!]+)(<=|>=|!=|=|<|>)(.*)$/.exec(text);
  if (!parts) {
    const wanted = text.replaceAll('"', "").toLowerCase();
    return point => haystacks.get(point.id).includes(wanted);
  }
  const [, name, sign, right] = parts, wanted = right.replaceAll('"', "");
  if (!known.has(name)) return null;
  return point => {
    const found = value(point, name);
    if (isMissing(found)) return sign === "!=";
    const number = wanted.trim() === "" ? NaN : Number(wanted);
    if (isNumber(found)) return !Number.isNaN(number) && comparisons[sign](found, number);
    return comparisons[sign](String(found), wanted);
  };
}

function applyFilter() {
  const words = filterWords();
  const terms = words.map(term), unknown = words[terms.indexOf(null)];
  state.accepts = point => terms.every(test => test === null || test(point));
  const count = visible().length;
  const said = unknown ? `${unknown}: no such knob or figure` : `${count.toLocaleString("en-US")} of ${data.points.length.toLocaleString("en-US")} points`;
  document.getElementById("matches").textContent = said;
  filterBox.setAttribute("aria-invalid", String(Boolean(unknown)));
  drawAll();
}

// Adds a comparison to the filter, or takes it away again.
function toggleTerm(name, wanted) {
  const text = /\s/.test(wanted) ? `${name}="${wanted}"` : `${name}=${wanted}`;
  const words = filterWords();
  filterBox.value = (words.includes(text) ? words.filter(word => word !== text) : [...words, text]).join(" ");
  applyFilter();
}
