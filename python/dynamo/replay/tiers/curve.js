// How much of the prompts caches of all sizes find, and what replays found.

// The part that a cache of a size finds: steps between the sizes of the curve are straight.
function foundAt(size) {
  const after = data.curve.findIndex(([at]) => at >= size);
  if (after < 0) return data.curve.at(-1)[1];
  const [right, high] = data.curve[after], [left, low] = data.curve[Math.max(0, after - 1)];
  return right === left ? high : low + (size - left) / (right - left) * (high - low);
}

function drawSizes() {
  const { unit, widest, curve, replays, mark, label } = data;
  const near = size => replays.find(([at]) => Math.abs(at - size) <= widest * 0.01);
  drawCurves(document.getElementById("curve"), [{ points: curve, style: colour(0) }, { points: replays, kind: "dots" }], {
    height: 320, x: [0, widest], y: [0, 100], xName: `cache, ${unit}`, yName: "prompt tokens found, %", label, bound: mark,
    rows: [...new Set([...curve, ...replays].map(([size]) => size / widest))].filter(part => part <= 1).sort((a, b) => a - b),
    tell: part => {
      const size = part * widest, replay = near(size);
      return [`${shown(Number(size.toPrecision(4)))} ${unit}`, `found: ${shown(Number(foundAt(size).toPrecision(4)))} %`,
        ...(replay ? [`in a replay: ${shown(Number(replay[1].toPrecision(4)))} %`] : [])];
    },
  });
}

redrawn(drawSizes);
