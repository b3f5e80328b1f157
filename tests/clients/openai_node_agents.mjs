// npm: openai@6 zod@4
// The openai library for Node: structured answers, forced tool calls, streamed arguments, and its own agent loop.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "any" });
const model = "builtin:bytes";
const city = z.object({ name: z.string(), people: z.number().int() });
const messages = [{ role: "user", content: "Which city?" }];

const parsed = await client.chat.completions.parse({
  model, messages, response_format: zodResponseFormat(city, "city"), max_tokens: 300,
});
city.parse(parsed.choices[0].message.parsed);
const response = await client.responses.parse({
  model, input: "Which city?", text: { format: zodTextFormat(city, "city") }, max_output_tokens: 300,
});
city.parse(response.output_parsed);

const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const tools = [{ type: "function", function: { name: "weather", parameters } }];
for (const tool_choice of ["required", { type: "function", function: { name: "weather" } }]) {
  const talk = [...messages];
  const asked = await client.chat.completions.create({ model, messages: talk, tools, tool_choice, max_tokens: 300 });
  const call = asked.choices[0].message.tool_calls[0];
  assert.equal(typeof JSON.parse(call.function.arguments).city, "string");
  talk.push(asked.choices[0].message, { role: "tool", tool_call_id: call.id, content: "warm" });
  const end = await client.chat.completions.create({ model, messages: talk, tools, max_tokens: 20 });
  assert.ok(end.choices[0].message.content);
  assert.ok(!end.choices[0].message.tool_calls?.length);
}

let streamed = "";
for await (const part of await client.chat.completions.create({
  model, messages, tools, tool_choice: "required", max_tokens: 300, stream: true,
})) {
  streamed += part.choices[0]?.delta.tool_calls?.[0]?.function?.arguments ?? "";
}
assert.equal(typeof JSON.parse(streamed).city, "string");

const seen = [];
const runner = client.chat.completions.runTools({
  model, messages, max_tokens: 300,
  tools: [{ type: "function", function: { name: "weather", parse: JSON.parse, parameters, function: ({ city }) => { seen.push(city); return "warm"; } } }],
  tool_choice: { type: "function", function: { name: "weather" } },
});
await runner.done();
assert.equal(seen.length, 1);
