// Puts the parts together.

function drawAll() {
  drawLegend();
  drawPareto();
  drawParallel();
  drawTable();
}

function select(id, show = false) {
  if (!byId.has(id)) return;
  state.selected = id;
  drawPareto();
  drawParallel();
  drawTable();
  drawDetail();
  if (show) document.getElementById("detail").scrollIntoView({ block: "nearest" });
}

function offerAxes() {
  const objectives = data.objectives.map(objective => objective.figure).filter(name => column.has(name));
  const [up, across] = [...new Set([...objectives, "gpus", "tok_s_per_user", ...data.figures])].filter(name => column.has(name));
  for (const [axis, chosen] of [["y", up], ["x", across || up]]) {
    const box = document.getElementById(axis);
    const option = name => html("option", { value: name, selected: name === chosen }, title(name));
    const others = data.figures.filter(name => !data.shown.includes(name));
    box.append(...data.shown.map(option), ...(others.length ? [html("optgroup", { label: "Other figures" }, ...others.map(option))] : []));
    state[axis] = chosen;
    box.addEventListener("change", () => { state[axis] = box.value; drawPareto(); });
  }
}

function start() {
  const missed = document.getElementById("missed");
  missed.checked = state.missed = !data.points.some(isIn);
  missed.addEventListener("change", () => { state.missed = missed.checked; applyFilter(); });
  filterBox.addEventListener("input", applyFilter);
  document.getElementById("controls").hidden = false;
  for (const button of document.querySelectorAll("[data-point]")) {
    button.addEventListener("click", () => select(Number(button.dataset.point), true));
  }
  offerAxes();
  // A notebook with a kernel says that it simulates the runs of points.
  window.addEventListener("message", ({ source, data: told }) => {
    if (source === parent && told && told.dynosim === "runs") { state.runs = true; drawDetail(); }
  });
  state.selected = data.best;
  applyFilter();
  drawDetail();
  let width = paretoBox.clientWidth;
  new ResizeObserver(() => {
    if (paretoBox.clientWidth === width) return;
    width = paretoBox.clientWidth;
    drawPareto();
    drawParallel();
  }).observe(paretoBox);
}

start();
