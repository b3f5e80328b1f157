// The responses API, as far as text goes.
import { OpenAI, chunksOf, equal, failure } from "./tools.mjs";

export default {
  async "an answer has the form of a response"({ respond }) {
    const answer = await respond({ max_output_tokens: 16 });
    equal([answer.object, answer.output_text.length, answer.usage.output_tokens], ["response", 16, 16]);
  },
  async "a stream says what the whole answer says"({ respond }) {
    const whole = await respond({ max_output_tokens: 24 });
    const events = await chunksOf(await respond({ max_output_tokens: 24, stream: true }));
    const deltas = events.filter((event) => event.type === "response.output_text.delta");
    equal(deltas.map((event) => event.delta).join(""), whole.output_text);
  },
  async "events of a stream are numbered, and have a beginning and an end"({ respond }) {
    const events = await chunksOf(await respond({ stream: true }));
    equal(events.map((event) => event.sequence_number), events.map((_, number) => number));
    equal([events[0].type, events.at(-1).type], ["response.created", "response.completed"]);
  },
  async "the helper of the client puts a stream together"({ client }) {
    const whole = await client.responses.stream({ model: "org/echo", input: "say this" }).finalResponse();
    equal(whole.output_text, "say this");
  },
  async "input may be messages"({ respond }) {
    equal((await respond({ model: "org/echo", input: [{ role: "user", content: "like this" }] })).output_text, "like this");
  },
  async "an earlier response is refused: none is kept"({ respond }) {
    await failure(() => respond({ previous_response_id: "resp_1" }), OpenAI.BadRequestError, { param: "previous_response_id" });
  },
};
