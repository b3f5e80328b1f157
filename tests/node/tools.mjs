// What all checks use: clients, and comparisons whose errors say what was expected.
import OpenAI from "openai";

export { OpenAI };
export const model = "builtin:bytes";
export const hello = [{ role: "user", content: "Hello, what is a token?" }];
export const said = (text) => [{ role: "user", content: text }];

// A client with short forms of its calls. The server wants a key, which is "secret".
export function against(url) {
  const options = { baseURL: `${url}/v1`, apiKey: "secret", maxRetries: 0, timeout: 120_000 };
  const client = new OpenAI(options);
  return {
    url,
    client,
    other: (changes) => new OpenAI({ ...options, ...changes }),
    chat: (more, about) => client.chat.completions.create({ model, messages: hello, ...more }, about),
    complete: (more, about) => client.completions.create({ model, prompt: "Once upon a time", ...more }, about),
    respond: (more, about) => client.responses.create({ model, input: "Hello, what is a token?", ...more }, about),
    metric: (name) => metric(url, name),
    until: (name, wanted) => until(url, name, wanted),
  };
}

export function equal(got, expected, what = "") {
  const [a, b] = [JSON.stringify(got), JSON.stringify(expected)];
  if (a !== b) throw new Error(`expected ${what}${what && " "}${b}, got ${a}`);
}

export function holds(truth, expected) {
  if (!truth) throw new Error(`expected ${expected}`);
}

// The error of a call, which must be of a class and has these members.
export async function failure(call, kind, members = {}) {
  let error;
  try {
    await call();
  } catch (caught) {
    error = caught;
  }
  if (!(error instanceof kind)) throw new Error(`expected ${kind.name}, got ${error ? `${error.constructor.name}: ${error.message}` : "no error"}`);
  for (const [name, value] of Object.entries(members)) equal(error[name], value, `${name} of the ${kind.name}`);
  return error;
}

export async function chunksOf(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

// The text of the answers in the parts of a stream, by index.
export function texts(chunks) {
  const all = [];
  for (const chunk of chunks)
    for (const choice of chunk.choices) all[choice.index] = (all[choice.index] ?? "") + (choice.delta?.content ?? choice.text ?? "");
  return all;
}

// The sum of a metric over all labels.
export async function metric(url, name) {
  const page = await (await fetch(`${url}/metrics`)).text();
  const lines = page.split("\n").filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

// Waits until the metric has the value; what never comes ends in an error.
export async function until(url, name, wanted) {
  let got;
  for (const end = Date.now() + 60_000; Date.now() < end; await new Promise((next) => setTimeout(next, 20))) {
    got = await metric(url, name);
    if (wanted(got)) return;
  }
  throw new Error(`expected another value of ${name} than ${got} within a minute`);
}
