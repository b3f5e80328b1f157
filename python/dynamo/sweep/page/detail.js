// The selected point: what it is, how to run it again, all of its figures.

function drawDetail() {
  const box = document.getElementById("detail"), point = byId.get(state.selected);
  if (!point) {
    box.replaceChildren();
    return;
  }
  const facts = point.deployed || point.knobs;
  const knobs = html("ul", { class: "knobs" }, ...Object.keys(facts).map(name =>
    html("li", {}, html("span", {}, ...breakable(name)), html("b", {}, plain(facts[name])))));
  const notes = [point.reason, point.limited_by && `limited by ${point.limited_by}`, ...(point.warnings || [])].filter(Boolean);
  box.replaceChildren(
    html("h2", {}, `Point ${point.id}${point.front ? " ★ not beaten by any other" : ""}`),
    html("p", { class: isIn(point) ? "" : "missed" }, [point.status, point.topology].join(", ")),
    knobs,
    ...data.timings[point.timing].lines.map(text => html("p", { class: "hint" }, text)),
    ...notes.map(text => html("p", { class: "hint" }, text)),
    ...commandOf(point),
    ...(state.runs && point.command ? [html("button", { type: "button", onclick: () => parent.postMessage({ dynosimPoint: point.id }, "*") }, "Show its run")] : []),
    ...(point.page ? [html("p", {}, html("a", { href: point.page }, "The page of its run"))] : []),
    ...figureTables(point),
  );
}

function commandOf(point) {
  if (!point.command) return [];
  const text = html("pre", { tabindex: 0 }, point.command);
  const button = html("button", { type: "button", onclick: () => copy(text, button) }, "Copy");
  return [html("h3", {}, "The command that repeats it"), text, button];
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text.textContent);
    button.textContent = "Copied";
  } catch { // Not allowed: it is selected, so that the reader can copy it.
    getSelection().selectAllChildren(text);
  }
}

function figureTables(point) {
  const measured = data.measured.filter(row => row.point === point.id);
  const names = data.figures.filter(name => figure(point, name) !== null);
  const first = names.filter(name => data.shown.includes(name) || measured.some(row => name in row.figures));
  const rest = names.filter(name => !first.includes(name));
  if (!names.length) return [];
  const parts = [html("h3", {}, "Its figures"), figureTable(point, first, measured)];
  if (rest.length) parts.push(html("details", {}, html("summary", {}, `${rest.length} more figures`), figureTable(point, rest, [])));
  return parts;
}

function figureTable(point, names, measured) {
  const bounds = names.some(name => verdictOf(point, name));
  const head = ["figure", names.some(name => interval(point, name)) ? "value, 95 % interval" : "value", ...(bounds ? ["bound"] : []),
    ...measured.map(row => `measured: ${row.label}`)];
  const rows = names.map(name => {
    return html("tr", {}, html("td", { class: "text wrap-name", title: data.meanings[name] || null }, ...breakable(title(name))),
      valueCell(figure(point, name), interval(point, name)),
      ...(bounds ? [boundCell(verdictOf(point, name))] : []),
      ...measured.map(row => html("td", {}, compared(row.figures[name], figure(point, name)))));
  });
  const header = html("thead", {}, html("tr", {}, ...head.map((text, at) => html("th", { scope: "col", class: at ? "number" : "text" }, text))));
  return html("div", { class: "scroll" }, html("table", {}, header, html("tbody", {}, ...rows)));
}

function valueCell(number, ends) {
  const spread = ends && ends[0] < ends[1] ? html("small", {}, `${shown(ends[0])} to ${shown(ends[1])}`) : null;
  return html("td", {}, shown(number), spread);
}

const verdictOf = (point, name) => (point.sla || []).find(verdict => verdict.figure === name);

function boundCell(verdict) {
  if (!verdict) return html("td");
  const bound = "at_most" in verdict ? `≤ ${shown(verdict.at_most)}` : `≥ ${shown(verdict.at_least)}`;
  const word = verdict.met ? (verdict.sure ? "kept" : "kept on average") : "missed";
  const near = isMissing(verdict.within_error) ? "" : `, by less than the measured error of ${Math.round(100 * verdict.within_error)} %`;
  return html("td", { class: verdict.met ? "" : "missed" }, `${bound} ${word}${near}`);
}

function compared(measured, simulated) {
  if (measured === undefined) return "";
  const error = measured ? ` (simulated ${((simulated / measured - 1) * 100).toFixed(1).replace(/^(?=\d)/, "+")} %)` : "";
  return shown(measured) + error;
}
