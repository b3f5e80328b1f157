// The table: a row for each point, sorted by the column that the reader selects.

const FIRST_ROWS = 50, LONG = 24;
const columns = ["id", "status", ...(data.knobs.includes("topology") ? [] : ["topology"]), ...data.knobs, "workers", ...data.shown];

function sorted(points) {
  const { name, down } = state.sort;
  const first = data.objectives[0];
  const by = name || first.figure, reverse = name ? down : first.maximize;
  return points.sort((one, other) => {
    const a = value(one, by), b = value(other, by);
    if (isMissing(a) || isMissing(b)) return isMissing(a) - isMissing(b) || one.id - other.id; // Without the figure: last in either order.
    return (reverse ? -1 : 1) * inOrder(a, b) || one.id - other.id;
  });
}

function drawTable() {
  const points = sorted(visible()), rows = state.all ? points : points.slice(0, FIRST_ROWS);
  const numeric = new Set(columns.filter(name => data.points.some(point => isNumber(value(point, name)))));
  // Long texts are broken, so that wide windows have room for all columns.
  const long = new Set(columns.filter(name => points.some(point => plain(value(point, name)).length > LONG)));
  const look = name => `${numeric.has(name) ? "number" : "text"}${long.has(name) ? " long" : ""}`;
  const head = html("tr", {}, ...columns.map(name => headCell(name, look(name))));
  const table = html("table", {}, html("thead", {}, head), html("tbody", {}, ...rows.map(point => rowOf(point, look))));
  const more = points.length > rows.length
    ? html("button", { type: "button", onclick: () => { state.all = true; drawTable(); } }, `Show all ${points.length.toLocaleString("en-US")} points`) : null;
  const box = document.getElementById("table"), old = box.querySelector(".scroll"), left = old ? old.scrollLeft : 0;
  const held = document.activeElement && box.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const scroll = html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of points" }, table);
  box.replaceChildren(scroll, ...(more ? [more] : []));
  scroll.scrollLeft = left;
  if (held) box.querySelector(`[data-key="${CSS.escape(held)}"]`)?.focus({ preventScroll: true });
}

function headCell(name, look) {
  const active = state.sort.name === name, sign = active ? (state.sort.down ? " ▾" : " ▴") : "";
  const sort = () => {
    state.sort = { name, down: active ? !state.sort.down : false };
    drawTable();
  };
  const button = html("button", { type: "button", "data-key": `sort ${name}`, title: data.meanings[name] || null, onclick: sort }, ...breakable(title(name) + sign));
  const direction = active ? (state.sort.down ? "descending" : "ascending") : "none";
  return html("th", { scope: "col", class: look, "aria-sort": direction }, button);
}

function rowOf(point, look) {
  const pick = () => select(point.id, true);
  const cells = columns.slice(1).map(name =>
    html("td", { class: look(name) }, (data.shown.includes(name) ? shown : plain)(value(point, name)) + (name === "status" && point.front ? " ★" : "")));
  const button = html("button", { type: "button", "data-key": `point ${point.id}`, "aria-label": `Point ${point.id}` }, String(point.id));
  const chosen = point.id === state.selected;
  return html("tr", { class: `row ${chosen ? "selected" : ""}`, onclick: pick }, html("td", {}, button), ...cells);
}
