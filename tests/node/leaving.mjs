// Clients that go away: the engines stop working for them, and their blocks are free.
import { OpenAI, failure, hello, holds } from "./tools.mjs";

const long = { model: "slow", max_tokens: 2000 };

// Waits until no request is left, neither in the server nor in an engine, and no block is held.
async function idle(until) {
  for (const name of ["dynosim_requests_in_flight", "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"])
    await until(name, (value) => value === 0);
}

export default {
  async "leaving the loop over a stream"({ chat, until }) {
    for await (const chunk of await chat({ ...long, stream: true })) if (chunk) break;
    await idle(until);
  },
  async "aborting a stream by its controller"({ chat, until }) {
    const stream = await chat({ ...long, stream: true });
    let parts = 0;
    for await (const chunk of stream) if ((parts += chunk.choices.length) === 1) stream.controller.abort();
    holds(parts < 20, `an end of the stream soon after the first part, got ${parts}`); // some may have come together
    await idle(until);
  },
  async "aborting the helper for streams"({ client, until }) {
    const stream = client.chat.completions.stream({ ...long, messages: hello });
    stream.on("chunk", () => stream.abort());
    await failure(() => stream.finalContent(), OpenAI.APIUserAbortError);
    await idle(until);
  },
  async "aborting a request by a signal"({ chat, until }) {
    const control = new AbortController();
    const call = chat(long, { signal: control.signal });
    call.catch(() => {}); // it is awaited below
    await until("vllm:num_requests_running", (value) => value > 0);
    control.abort();
    await failure(() => call, OpenAI.APIUserAbortError);
    await idle(until);
  },
  async "a time limit of the client"({ chat, until }) {
    await failure(() => chat(long, { timeout: 300 }), OpenAI.APIConnectionTimeoutError);
    await idle(until);
  },
  async "50 streams at once, all left in the middle"({ chat, until }) {
    const leave = async () => {
      for await (const chunk of await chat({ ...long, stream: true })) if (chunk) break;
    };
    await Promise.all(Array.from({ length: 50 }, leave));
    await idle(until);
  },
};
