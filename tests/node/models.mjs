// Several models, and LoRA adapters.
import { OpenAI, chunksOf, equal, failure, hello, model, said, texts } from "./tools.mjs";

export default {
  async "all models and adapters are listed"({ client }) {
    const ids = (await chunksOf(client.models.list())).map((listed) => listed.id);
    for (const name of [model, "sql", "org/echo", "thinker", "slow", "pools"]) equal(ids.includes(name), true, `${name} in ${ids}:`);
  },
  async "a model is described"({ client }) {
    const card = await client.models.retrieve(model);
    equal([card.id, card.object, card.max_model_len], [model, "model", 4096]);
  },
  async "a model whose name has a slash is described"({ client }) {
    equal((await client.models.retrieve("org/echo")).id, "org/echo");
  },
  async "an adapter names its model"({ client }) {
    equal((await client.models.retrieve("sql")).parent, model);
  },
  async "an unknown model is not described"({ client }) {
    await failure(() => client.models.retrieve("unknown"), OpenAI.NotFoundError, { code: "model_not_found" });
  },
  async "each model answers by its name"({ chat }) {
    for (const name of [model, "org/echo", "pools"]) equal((await chat({ model: name, max_tokens: 2 })).model, name);
  },
  async "prefill and decode pools answer streams"({ chat }) {
    const chunks = await chunksOf(await chat({ model: "pools", max_tokens: 25, stream: true }));
    equal(texts(chunks)[0].length, 25);
  },
  async "an adapter answers by its name"({ chat }) {
    equal((await chat({ model: "sql", max_tokens: 2 })).model, "sql");
  },
  async "an adapter has a cache of its own"({ chat }) {
    const messages = said("adapted ".repeat(100));
    await chat({ messages, max_tokens: 1 });
    equal((await chat({ messages, max_tokens: 1, model: "sql" })).usage.prompt_tokens_details.cached_tokens, 0, "cached tokens");
  },
  async "adapters come and go"({ client, chat }) {
    const change = (what, body) => client.post(`/${what}_lora_adapter`, { body: { lora_name: "new", ...body } });
    await change("load", { lora_path: "/adapters/new", base_model_name: model });
    equal((await chat({ model: "new", max_tokens: 2 })).model, "new");
    await failure(() => change("load", {}), OpenAI.BadRequestError, { param: "lora_name" });
    await change("unload", {});
    await failure(() => chat({ model: "new", messages: hello }), OpenAI.NotFoundError);
  },
  async "tokens of a text, and back"({ url, client }) {
    const { tokens, count } = await client.post(`${url}/tokenize`, { body: { model, prompt: "hi", add_special_tokens: false } });
    equal([tokens, count], [[104, 105], 2]);
    equal((await client.post(`${url}/detokenize`, { body: { model, tokens } })).prompt, "hi");
  },
};
