// The page of a sweep in a notebook with a kernel: it asks for the run of a point, whose page appears below.

function frame(title, height) {
  const made = document.createElement("iframe");
  made.title = title;
  made.setAttribute("sandbox", "allow-scripts");
  made.style.cssText = `width: 100%; height: ${height}px; border: 0`;
  return made;
}

function render({ model, el }) {
  const sweep = frame("The page of a sweep", model.get("height"));
  const status = document.createElement("output"), place = document.createElement("div");
  sweep.addEventListener("load", () => sweep.contentWindow.postMessage({ dynosim: "runs" }, "*"));
  sweep.srcdoc = model.get("page");
  const hear = ({ source, data }) => {
    if (source !== sweep.contentWindow || !data || !Number.isInteger(data.dynosimPoint)) return;
    model.set("picked", data.dynosimPoint);
    model.save_changes();
  };
  const say = () => { status.textContent = model.get("status"); };
  const show = () => {
    place.replaceChildren();
    if (!model.get("run_page")) return;
    const run = frame("The page of a run", model.get("height"));
    run.srcdoc = model.get("run_page");
    place.append(run);
  };
  window.addEventListener("message", hear);
  model.on("change:status", say);
  model.on("change:run_page", show);
  say();
  show();
  el.append(sweep, status, place);
  return () => window.removeEventListener("message", hear);
}

export default { render };
