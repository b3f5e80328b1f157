// Chats, whole and streamed.
import { chunksOf, equal, hello, holds, model, said, texts } from "./tools.mjs";

const echo = "org/echo";
const scripts = "naïve 日本語 العربية ไทย 🙂👨‍👩‍👧 עברית हिन्दी";

export default {
  async "an answer has the form of a chat completion"({ chat }) {
    const answer = await chat({ max_tokens: 9 });
    equal([answer.object, answer.model, answer.choices.length], ["chat.completion", model, 1]);
    const [choice] = answer.choices;
    equal([choice.index, choice.message.role, choice.finish_reason, choice.message.content.length], [0, "assistant", "length", 9]);
  },
  async "usage adds up"({ chat }) {
    const { usage } = await chat({ max_tokens: 7 });
    equal([usage.completion_tokens, usage.total_tokens - usage.prompt_tokens], [7, 7]);
  },
  async "max_completion_tokens counts"({ chat }) {
    equal((await chat({ max_completion_tokens: 5 })).usage.completion_tokens, 5);
  },
  async "an answer without a limit ends by itself"({ chat }) {
    const answer = await chat({});
    equal([answer.choices[0].finish_reason, answer.usage.completion_tokens], ["stop", 16]);
  },
  async "equal seeds say the same, others do not"({ chat }) {
    const [a, b, c] = await Promise.all([1, 1, 2].map(async (seed) => (await chat({ seed, max_tokens: 40 })).choices[0].message.content));
    equal([a === b, a === c], [true, false]);
  },
  async "n answers differ and are in order"({ chat }) {
    const { choices } = await chat({ n: 3, max_tokens: 30 });
    equal(choices.map((choice) => choice.index), [0, 1, 2]);
    equal(new Set(choices.map((choice) => choice.message.content)).size, 3, "different answers:");
  },
  async "a stream says what the whole answer says"({ chat }) {
    const whole = await chat({ max_tokens: 30, seed: 2 });
    const chunks = await chunksOf(await chat({ max_tokens: 30, seed: 2, stream: true }));
    equal(texts(chunks), [whole.choices[0].message.content]);
  },
  async "parts of a stream have one id, a role first and a reason last"({ chat }) {
    const chunks = await chunksOf(await chat({ max_tokens: 4, stream: true }));
    equal([...new Set(chunks.map((chunk) => `${chunk.object} ${chunk.id === chunks[0].id}`))], ["chat.completion.chunk true"]);
    equal([chunks[0].choices[0].delta.role, chunks.at(-1).choices[0].finish_reason], ["assistant", "length"]);
  },
  async "a stream may end with its usage"({ chat }) {
    const last = (await chunksOf(await chat({ max_tokens: 5, stream: true, stream_options: { include_usage: true } }))).at(-1);
    equal([last.choices.length, last.usage.completion_tokens], [0, 5]);
  },
  async "a stream without asking has no usage"({ chat }) {
    const chunks = await chunksOf(await chat({ max_tokens: 5, stream: true }));
    equal(chunks.some((chunk) => chunk.usage), false);
  },
  async "n streams are told apart"({ chat }) {
    const whole = await chat({ n: 3, max_tokens: 20, seed: 7 });
    const chunks = await chunksOf(await chat({ n: 3, max_tokens: 20, seed: 7, stream: true }));
    equal(texts(chunks), whole.choices.map((choice) => choice.message.content));
  },
  async "the helper of the client puts a stream together"({ client }) {
    const whole = await client.chat.completions.stream({ model, messages: hello }).finalChatCompletion();
    equal([whole.choices[0].finish_reason, whole.choices[0].message.content.length], ["stop", 16]);
  },
  async "the helper hears of each piece of content"({ client }) {
    let heard = "";
    const stream = client.chat.completions.stream({ model, messages: hello, max_tokens: 12 }).on("content", (delta) => (heard += delta));
    equal((await stream.finalContent()) === heard, true);
  },
  async "every script comes back"({ chat }) {
    equal((await chat({ model: echo, messages: said(scripts) })).choices[0].message.content, scripts);
  },
  async "no character is broken in a stream"({ chat }) {
    const chunks = await chunksOf(await chat({ model: echo, messages: said(scripts), stream: true }));
    equal(texts(chunks), [scripts]);
  },
  async "content may be parts of text"({ chat }) {
    const parts = [{ type: "text", text: "one " }, { type: "text", text: "two" }];
    equal((await chat({ model: echo, messages: said(parts) })).choices[0].message.content, "one two");
  },
  async "instructions and earlier turns are part of the prompt"({ chat }) {
    const long = [{ role: "system", content: "Be brief." }, ...hello, { role: "assistant", content: "Yes." }, ...hello];
    const [short, more] = [await chat({ max_tokens: 1 }), await chat({ max_tokens: 1, messages: long })];
    holds(more.usage.prompt_tokens > 2 * short.usage.prompt_tokens, "a prompt more than twice as long");
  },
  async "a stop sequence ends an answer"({ chat }) {
    const [choice] = (await chat({ model: echo, messages: said("one two three four"), stop: "three" })).choices;
    equal([choice.message.content, choice.finish_reason], ["one two ", "stop"]);
  },
  async "a stop sequence ends a stream, nothing of it is sent"({ chat }) {
    const stream = await chat({ model: echo, messages: said("one two three four"), stop: ["x", "three"], stream: true });
    equal(texts(await chunksOf(stream)), ["one two "]);
  },
  async "an answer that is cut off says so"({ chat }) {
    const [choice] = (await chat({ model: echo, messages: said("abcdefgh"), max_tokens: 3 })).choices;
    equal([choice.message.content, choice.finish_reason], ["abc", "length"]);
  },
  async "tools may be given, and none is called"({ chat }) {
    const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: {} } } }];
    const [choice] = (await chat({ tools, tool_choice: "auto", max_tokens: 3 })).choices;
    equal([choice.message.tool_calls ?? null, choice.finish_reason], [null, "length"]);
  },
  async "reasoning comes apart from the answer"({ chat }) {
    const { choices, usage } = await chat({ model: "thinker", max_tokens: 20 });
    const { content, reasoning_content: thought } = choices[0].message;
    holds(content && thought, "content and reasoning_content");
    equal(usage.completion_tokens_details.reasoning_tokens, 10, "reasoning tokens");
  },
  async "recorded answers follow the beginning of the question"({ chat }) {
    equal((await chat({ model: "recorded", messages: said("What is a block?") })).choices[0].message.content, "Some tokens.");
  },
  async "the same prompt is found in the cache"({ chat }) {
    const messages = said("cached ".repeat(100));
    await chat({ messages, max_tokens: 1 });
    const { usage } = await chat({ messages, max_tokens: 1 });
    holds(usage.prompt_tokens_details.cached_tokens >= 640, `at least 640 cached tokens, got ${usage.prompt_tokens_details.cached_tokens}`);
  },
  async "another cache_salt finds nothing in the cache"({ chat }) {
    const messages = said("salted ".repeat(100));
    await chat({ messages, max_tokens: 1, cache_salt: "a" });
    equal((await chat({ messages, max_tokens: 1, cache_salt: "b" })).usage.prompt_tokens_details.cached_tokens, 0, "cached tokens");
  },
  async "a request id comes back in the header"({ chat }) {
    const { response } = await chat({ max_tokens: 1 }, { headers: { "X-Request-Id": "mine" } }).withResponse();
    equal(response.headers.get("x-request-id"), "mine");
  },
  async "the client knows the id of a request that it has not named"({ chat }) {
    const [a, b] = [await chat({ max_tokens: 1 }), await chat({ max_tokens: 1 })];
    holds(a._request_id && b._request_id && a._request_id !== b._request_id && a.id !== b.id, "two requests with ids of their own");
  },
};
