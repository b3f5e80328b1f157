// What the official Node client sees of the OpenAI-compatible server at the URL that is given: prints a JSON object, a check to each
// name, that is true if it has passed, else says what is wrong.
import OpenAI from "openai";

const [url] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "any", maxRetries: 0, timeout: 60_000 });
const model = "builtin:bytes";
const messages = [{ role: "user", content: "Hello, what is a token?" }];

function equal(got, want) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)];
  if (a !== b) throw new Error(`got ${a}, want ${b}`);
}

async function failure(call) {
  try {
    await call();
  } catch (error) {
    return error;
  }
  throw new Error("no error");
}

async function joined(stream) {
  let text = "";
  for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? "";
  return text;
}

const checks = {
  async chat() {
    const answer = await client.chat.completions.create({ model, messages, max_tokens: 9 });
    equal([answer.object, answer.choices[0].message.role, answer.usage.completion_tokens], ["chat.completion", "assistant", 9]);
  },
  async stream() {
    const whole = await client.chat.completions.create({ model, messages, max_tokens: 30, seed: 2 });
    const stream = await client.chat.completions.create({ model, messages, max_tokens: 30, seed: 2, stream: true });
    equal(await joined(stream), whole.choices[0].message.content);
  },
  async usage() {
    const options = { stream: true, stream_options: { include_usage: true } };
    const chunks = [];
    for await (const chunk of await client.chat.completions.create({ model, messages, max_tokens: 5, ...options })) chunks.push(chunk);
    equal([chunks.at(-1).choices.length, chunks.at(-1).usage.completion_tokens], [0, 5]);
  },
  async helper() {
    const whole = await client.chat.completions.stream({ model, messages }).finalChatCompletion();
    equal(whole.choices[0].finish_reason, "stop");
  },
  async completion() {
    const answer = await client.completions.create({ model, prompt: ["a", "b"], max_tokens: 4, n: 2 });
    equal(answer.choices.map((choice) => choice.index), [0, 1, 2, 3]);
  },
  async models() {
    const ids = [];
    for await (const listed of client.models.list()) ids.push(listed.id);
    equal(ids, [model, "sql"]);
    equal((await client.models.retrieve("sql")).parent, model);
  },
  async adapter() {
    equal((await client.chat.completions.create({ model: "sql", messages, max_tokens: 2 })).model, "sql");
  },
  async unknownModel() {
    const error = await failure(() => client.chat.completions.create({ model: "unknown", messages }));
    equal([error instanceof OpenAI.NotFoundError, error.code, error.param], [true, "model_not_found", "model"]);
  },
  async badRequest() {
    const error = await failure(() => client.chat.completions.create({ model, messages, n: 0 }));
    equal([error instanceof OpenAI.BadRequestError, error.param], [true, "n"]);
  },
  async requestId() {
    const { response } = await client.chat.completions
      .create({ model, messages, max_tokens: 1 }, { headers: { "X-Request-Id": "mine" } })
      .withResponse();
    equal(response.headers.get("x-request-id"), "mine");
  },
  async abort() {
    const stream = await client.chat.completions.create({ model, messages, max_tokens: 100_000, stream: true });
    for await (const chunk of stream) if (chunk) break; // leaves the loop, which ends the connection
  },
  async parallel() {
    const ask = (seed) => client.completions.create({ model, prompt: `p${seed}`, max_tokens: 20, stream: false });
    const answers = await Promise.all(Array.from({ length: 100 }, (_, seed) => ask(seed)));
    equal(answers.every((answer) => answer.usage.completion_tokens === 20), true);
  },
};

const results = {};
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    results[name] = true;
  } catch (error) {
    results[name] = String(error);
  }
}
console.log(JSON.stringify(results));
