// Errors, and what the client makes of them.
import { OpenAI, chunksOf, equal, failure, hello, holds } from "./tools.mjs";

const image = [{ role: "user", content: [{ type: "image_url", image_url: { url: "http://x/y.png" } }] }];

// A bad value of a parameter of chats is a BadRequestError that names the parameter.
function refused(param, options) {
  return async ({ chat }) => {
    const error = await failure(() => chat(options), OpenAI.BadRequestError, { status: 400, param, type: "invalid_request_error" });
    holds(error.message.includes(param), `${param} in the message ${error.message}`);
  };
}

export default {
  "n: 0 is refused": refused("n", { n: 0 }),
  "no messages are refused": refused("messages", { messages: [] }),
  "a message without a role is refused": refused("messages", { messages: [{ content: "x" }] }),
  "an image is refused": refused("messages.0.content", { messages: image }),
  "max_tokens: 0 is refused": refused("max_tokens", { max_tokens: 0 }),
  "max_tokens that is no number is refused": refused("max_tokens", { max_tokens: "many" }),
  "a negative temperature is refused": refused("temperature", { temperature: -1 }),
  "top_p: 2 is refused": refused("top_p", { top_p: 2 }),
  "an empty stop sequence is refused": refused("stop", { stop: [""] }),
  "too many logprobs are refused": refused("top_logprobs", { logprobs: true, top_logprobs: 21 }),
  "a tool that must be called is refused": refused("tool_choice", { tool_choice: "required" }),
  "stream_options without a stream are refused": refused("stream_options", { stream_options: { include_usage: true } }),
  "a bad stream is refused before it begins": refused("n", { n: 0, stream: true }),
  async "a prompt that is too long has its own code"({ complete }) {
    await failure(() => complete({ prompt: "word ".repeat(5000) }), OpenAI.BadRequestError, { code: "context_length_exceeded" });
  },
  async "suffix is refused"({ complete }) {
    await failure(() => complete({ suffix: "the end" }), OpenAI.BadRequestError, { param: "suffix" });
  },
  async "an unknown model is not found"({ chat }) {
    await failure(() => chat({ model: "unknown" }), OpenAI.NotFoundError, { status: 404, code: "model_not_found", param: "model" });
  },
  async "an endpoint that does not exist is not found"({ client }) {
    await failure(() => client.embeddings.create({ model: "x", input: "text" }), OpenAI.NotFoundError, { status: 404 });
  },
  async "a wrong key is refused"({ other }) {
    const call = () => other({ apiKey: "wrong" }).chat.completions.create({ model: "x", messages: hello });
    await failure(call, OpenAI.AuthenticationError, { status: 401, code: "invalid_api_key" });
  },
  async "each of several keys will do"({ other }) {
    holds((await other({ apiKey: "second" }).models.list()).data.length > 0, "a list of models");
  },
  async "429 is a RateLimitError that says when to come back"({ chat }) {
    const error = await failure(() => chat({ model: "fails-429" }), OpenAI.RateLimitError, { status: 429 });
    equal(error.headers.get("retry-after"), "1");
  },
  async "500 is an InternalServerError with the message of the server"({ chat }) {
    const error = await failure(() => chat({ model: "fails-500" }), OpenAI.InternalServerError, { status: 500 });
    holds(error.message.includes("out of luck"), `out of luck in the message ${error.message}`);
  },
  async "503 is an InternalServerError"({ chat }) {
    await failure(() => chat({ model: "fails-503" }), OpenAI.InternalServerError, { status: 503 });
  },
  async "an error has the id of its request"({ chat }) {
    const call = () => chat({ n: 0 }, { headers: { "X-Request-Id": "mine" } });
    equal((await failure(call, OpenAI.BadRequestError)).requestID, "mine");
  },
  async "the client tries again by itself"({ other, metric }) {
    const before = await metric("dynosim_http_errors_total");
    const call = () => other({ maxRetries: 2 }).chat.completions.create({ model: "fails-503", messages: hello });
    await failure(call, OpenAI.InternalServerError);
    equal((await metric("dynosim_http_errors_total")) - before, 3, "requests:");
  },
  async "a stream that breaks off is an error, not an end"({ chat }) {
    let parts = 0;
    const call = async () => {
      for await (const chunk of await chat({ model: "breaks", max_tokens: 50, stream: true })) parts += chunk.choices.length;
    };
    await failure(call, Error);
    holds(parts > 0, "parts before the break");
  },
  async "an answer that breaks off is a connection error"({ chat }) {
    await failure(() => chat({ model: "breaks", max_tokens: 50 }), OpenAI.APIConnectionError);
  },
  async "others are answered after all this"({ chat }) {
    equal((await chunksOf(await chat({ max_tokens: 3, stream: true }))).at(-1).choices[0].finish_reason, "length");
  },
};
