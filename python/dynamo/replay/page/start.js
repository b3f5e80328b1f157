// Puts the parts together.

function drawAll() {
  drawDistributions();
  drawSeries();
}

function start() {
  if (data.series) {
    const box = document.getElementById("figure");
    box.append(...data.series.figures.map(figure => html("option", { value: figure.name }, figure.title)));
    box.addEventListener("change", drawSeries);
  }
  document.getElementById("log").addEventListener("change", drawDistributions);
  drawParts();
  drawAll();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  const main = document.querySelector("main");
  let width = main.clientWidth;
  new ResizeObserver(() => {
    if (main.clientWidth === width) return;
    width = main.clientWidth;
    drawAll();
  }).observe(main);
}

start();
