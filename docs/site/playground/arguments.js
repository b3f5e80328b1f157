// What the form says, as the arguments of a run: for the core, for the address, and as what gives the same on another machine.

const choices = JSON.parse(document.getElementById("choices").textContent);
const form = document.getElementById("form");
const field = name => form.elements[name];
const DEFAULTS = Object.fromEntries(Array.from(form.elements).filter(element => element.name && element.type !== "file")
  .map(element => [element.name, element.type === "checkbox" ? String(element.checked) : element.value]));
let dropped = null; // a file of the user's: { name, bytes }

const valueOf = name => field(name).type === "checkbox" ? String(field(name).checked) : field(name).value.trim();

// A number that the form has, undefined if the field is empty. What it may be is checked by the core.
function number(name) {
  const text = valueOf(name);
  if (text === "") return undefined;
  const value = Number(text);
  if (!Number.isFinite(value)) throw new Error(`${labelOf(name)}: got ${JSON.stringify(text)}, want a number`);
  return value;
}

const labelOf = name => field(name).labels[0].firstChild.textContent.trim();

function objectOf(name) {
  const text = valueOf(name);
  if (text === "") return {};
  let value;
  try { value = JSON.parse(text); } catch (error) { throw new Error(`${labelOf(name)}: not JSON: ${error.message}`); }
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error(`${labelOf(name)}: got ${text}, want a JSON object`);
  return value;
}

// More arguments of the run, of which none may need a file.
function moreArguments() {
  const more = objectOf("more"), file = Object.keys(more).find(name => choices.files.includes(name));
  if (file) throw new Error(`${labelOf("more")}: ${file} names a file, which a browser does not have; the command line takes it`);
  return more;
}

const given = object => Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
const isPlain = value => value !== null && typeof value === "object";

// The arguments of the Python function, and which function.
function readForm() {
  const workload = valueOf("workload"), generated = workload === "generated", pools = valueOf("pools") === "two";
  const trace = choices.traces.find(known => known.name === workload);
  if (workload === "file" && dropped === null) throw new Error("Workload: no file, choose one or drop it here");
  const path = trace ? trace.path : dropped ? dropped.name : "";
  const format = trace ? trace.format : valueOf("format");
  const engine = given({
    engine_type: changed("engine"), scheduler: changed("rules"), num_gpu_blocks: number("blocks"), max_num_seqs: number("seqs"),
    max_num_batched_tokens: number("batched"), block_size: number("block_size"), ...(valueOf("caching") === "true" ? {} : { enable_prefix_caching: false }),
    ...objectOf("engine_more"),
  });
  const link = pools ? given({ kv_bytes_per_token: number("kv_bytes"), kv_transfer_bandwidth: number("bandwidth") }) : {};
  const some = object => Object.keys(object).length ? object : undefined;
  const script = valueOf("faults").split("\n").map(line => line.trim()).filter(line => line);
  return {
    kind: generated ? "synthetic" : "trace",
    arguments: given({
      ...(generated ? { input_tokens: number("input_tokens"), output_tokens: number("output_tokens"), request_count: number("requests"), request_rate: number("rate") }
        : { trace_files: [path], trace_format: format === "mooncake" ? undefined : format }),
      ...(pools ? { num_prefill_workers: number("prefill"), num_decode_workers: number("decode") } : { num_workers: number("workers") }),
      extra_engine_args: some(engine), prefill_engine_args: some(link),
      router_mode: changed("router"), faults: script.length ? `${script.map(checkedFault).join("\n")}\n` : undefined, // the text of a file
      migration_limit: script.length ? number("migration") : undefined,
      arrival_speedup_ratio: changed("speedup") && number("speedup"), sla_ttft_ms: number("sla_ttft"), sla_tpot_ms: number("sla_tpot"),
      ...moreArguments(), attribution: true,
    }),
  };
}

const changed = name => valueOf(name) === DEFAULTS[name] ? undefined : valueOf(name);

function checkedFault(line, at) {
  try { JSON.parse(line); } catch (error) { throw new Error(`Faults: line ${at + 1} is not JSON: ${error.message}`); }
  return line;
}

// JSON as Python writes it: the report has some arguments as the texts that they were given as.
function spaced(value) {
  if (Array.isArray(value)) return `[${value.map(spaced).join(", ")}]`;
  if (isPlain(value)) return `{${Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${spaced(item)}`).join(", ")}}`;
  return JSON.stringify(value);
}

// The description of the run for the core: objects are JSON texts there. The page also wants rows and a series.
function jobOf(run) {
  const plain = Object.entries(run.arguments).map(([name, value]) => [name, isPlain(value) && name !== "trace_files" ? spaced(value) : value]);
  return JSON.stringify({ kind: run.kind, ...Object.fromEntries(plain), rows: true, html: "run.html" });
}

const quoted = text => /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;

// The command line that gives the same report.
function commandOf(run) {
  const lines = [], words = [];
  for (const [name, value] of Object.entries(run.arguments)) {
    if (name === "trace_files") words.unshift(...value.map(quoted));
    else if (name === "attribution") words.push("--explain");
    else if (name === "faults") {
      lines.push(`printf '%s\\n' ${value.trimEnd().split("\n").map(quoted).join(" ")} > faults.jsonl`);
      words.push("--faults faults.jsonl");
    } else if (value === false) continue;
    else words.push(`--${(choices.flags[name] || name.replaceAll("_", "-"))}${value === true ? "" : ` ${quoted(isPlain(value) ? spaced(value) : String(value))}`}`);
  }
  return [...lines, `python -m dynamo.replay ${words.join(" \\\n    ")}`].join("\n");
}

function python(value) {
  if (value === true) return "True";
  if (value === false) return "False";
  if (value === null) return "None";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (isPlain(value)) return `{${Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${python(item)}`).join(", ")}}`;
  return JSON.stringify(value);
}

// The Python call that gives the same report.
function callOf(run) {
  const name = run.kind === "trace" ? "run_trace_replay" : "run_synthetic_trace_replay";
  const lines = Object.entries(run.arguments).map(([key, value]) => key === "trace_files" ? python(value[0]) : key === "faults" ? 'faults="faults.jsonl"' : `${key}=${python(value)}`);
  const before = run.arguments.faults ? `from pathlib import Path\n\nfrom dynamo.replay import ${name}\n\nPath("faults.jsonl").write_text(${python(run.arguments.faults)})\n`
    : `from dynamo.replay import ${name}\n\n`;
  return `${before}report = ${name}(\n${lines.map(line => `    ${line},\n`).join("")})`;
}

// The part of the address that holds what differs from the beginning.
const addressOf = () => new URLSearchParams(Object.keys(DEFAULTS).filter(name => valueOf(name) !== DEFAULTS[name]).map(name => [name, valueOf(name)])).toString();

function fillForm(address) {
  const wanted = new URLSearchParams(address);
  for (const [name, value] of Object.entries(DEFAULTS)) {
    const text = wanted.has(name) ? wanted.get(name) : value, element = field(name);
    if (element.type === "checkbox") element.checked = text === "true";
    else if (element.tagName !== "SELECT" || Array.from(element.options).some(option => option.value === text)) element.value = text;
  }
  showNeeded();
}

// Hides what the workload and the pools do not need.
function showNeeded() {
  for (const element of document.querySelectorAll("[data-for]")) {
    const [name, ...values] = element.dataset.for.split(" ");
    element.hidden = !values.includes(valueOf(name));
  }
}
