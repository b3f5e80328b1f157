// Completions of texts and tokens.
import { chunksOf, equal, texts } from "./tools.mjs";

export default {
  async "an answer has the form of a completion"({ complete }) {
    const answer = await complete({ max_tokens: 8 });
    equal([answer.object, answer.choices[0].text.length, answer.choices[0].finish_reason], ["text_completion", 8, "length"]);
    equal(answer.usage.prompt_tokens, 1 + "Once upon a time".length, "prompt tokens, the first of which begins the text,");
  },
  async "a stream says what the whole answer says"({ complete }) {
    const whole = await complete({ max_tokens: 30, seed: 3 });
    equal(texts(await chunksOf(await complete({ max_tokens: 30, seed: 3, stream: true }))), [whole.choices[0].text]);
  },
  async "a stream may end with its usage"({ complete }) {
    const last = (await chunksOf(await complete({ max_tokens: 5, stream: true, stream_options: { include_usage: true } }))).at(-1);
    equal([last.choices.length, last.usage.completion_tokens], [0, 5]);
  },
  async "several prompts, n answers each"({ complete }) {
    const answer = await complete({ prompt: ["a", "b"], max_tokens: 4, n: 2 });
    equal(answer.choices.map((choice) => choice.index), [0, 1, 2, 3]);
    equal([answer.usage.prompt_tokens, answer.usage.completion_tokens], [4, 16]);
  },
  async "several prompts in one stream are told apart"({ complete }) {
    const prompt = ["first", "second", "third"];
    equal(texts(await chunksOf(await complete({ model: "org/echo", prompt, stream: true }))), prompt);
  },
  async "a prompt of tokens is its text"({ complete }) {
    equal((await complete({ model: "org/echo", prompt: [104, 105] })).choices[0].text, "hi");
  },
  async "several prompts of tokens"({ complete }) {
    const { choices } = await complete({ model: "org/echo", prompt: [[104], [105]] });
    equal(choices.map((choice) => choice.text), ["h", "i"]);
  },
  async "echo puts the prompt in front"({ complete }) {
    const [choice] = (await complete({ prompt: "begin", echo: true, max_tokens: 3 })).choices;
    equal([choice.text.slice(0, 5), choice.text.length], ["begin", 8]);
  },
  async "ignore_eos goes on to the last token"({ complete }) {
    const [choice] = (await complete({ model: "org/echo", prompt: "ab", ignore_eos: true, max_tokens: 6 })).choices;
    equal([choice.text, choice.finish_reason], ["ababab", "length"]);
  },
  async "100 at once, as promises"({ complete }) {
    const ask = (seed) => complete({ prompt: `p${seed}`, max_tokens: 20, seed });
    const answers = await Promise.all(Array.from({ length: 100 }, (_, seed) => ask(seed)));
    equal(answers.filter((answer) => answer.usage.completion_tokens === 20).length, 100, "answers of 20 tokens:");
  },
  async "500 at once, streamed, each gets its own answer"({ complete }) {
    const ask = async (n) => texts(await chunksOf(await complete({ model: "org/echo", prompt: `I am number ${n}`, stream: true })))[0];
    const answers = await Promise.all(Array.from({ length: 500 }, (_, n) => ask(n)));
    equal(answers.filter((text, n) => text === `I am number ${n}`).length, 500, "right answers:");
  },
  async "500 at once, whole, each gets its own answer"({ complete }) {
    const ask = async (n) => (await complete({ model: "org/echo", prompt: `I am number ${n}` })).choices[0].text;
    const answers = await Promise.all(Array.from({ length: 500 }, (_, n) => ask(n)));
    equal(answers.filter((text, n) => text === `I am number ${n}`).length, 500, "right answers:");
  },
};
