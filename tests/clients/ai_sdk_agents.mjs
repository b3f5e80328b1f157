// npm: ai@5 @ai-sdk/openai-compatible@1 zod@4
// The AI SDK: structured objects, a forced tool call, streams, and an agent loop that ends.
import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const url = process.argv[2];
const provider = createOpenAICompatible({ name: "dynosim", baseURL: url + "/v1", apiKey: "any", supportsStructuredOutputs: true });
const plain = createOpenAICompatible({ name: "plain", baseURL: url + "/v1", apiKey: "any" });
const model = provider("builtin:bytes");
const city = z.object({ name: z.string(), people: z.number().int() });

const { object } = await generateObject({ model, schema: city, prompt: "Which city?", maxOutputTokens: 300 });
city.parse(object);
const list = await generateObject({ model, output: "array", schema: city, prompt: "Which cities?", maxOutputTokens: 300 });
list.object.forEach((one) => city.parse(one));
const chosen = await generateObject({ model, output: "enum", enum: ["red", "green"], prompt: "Which?", maxOutputTokens: 300 });
assert.ok(["red", "green"].includes(chosen.object));
const byPrompt = await generateObject({ // sends json_object without the schema, which therefore stands in the messages
  model: plain("builtin:bytes"), schema: city, prompt: "Which city?", maxOutputTokens: 300,
  system: "Answer with JSON that conforms to " + JSON.stringify(z.toJSONSchema(city)),
});
city.parse(byPrompt.object);

let called = 0;
const weather = tool({
  description: "Tells the weather of a city",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => { called += 1; return `warm in ${city}`; },
});
const forced = await generateText({
  model, tools: { weather }, toolChoice: "required", prompt: "Is it warm in Rome?", maxOutputTokens: 300,
});
assert.equal(forced.toolCalls.length, 1);
assert.equal(forced.finishReason, "tool-calls");
assert.equal(called, 1);
assert.match(forced.toolResults[0].output, /^warm in /);

const agent = await generateText({
  model, tools: { weather }, prompt: "Is it warm in Rome?", maxOutputTokens: 300, stopWhen: stepCountIs(5),
  prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "auto" }),
});
assert.equal(agent.steps.length, 2);
assert.equal(agent.steps[0].toolCalls.length, 1);
assert.ok(agent.text.length > 0);
assert.equal(agent.finishReason === "stop" || agent.finishReason === "length", true);

const stream = streamText({
  model, tools: { weather }, toolChoice: { type: "tool", toolName: "weather" }, prompt: "Is it warm?", maxOutputTokens: 300,
});
const parts = [];
for await (const part of stream.fullStream) parts.push(part.type);
assert.ok(parts.includes("tool-input-delta") && parts.includes("tool-call"), String(parts));
assert.equal(called, 3);
