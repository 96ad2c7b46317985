// OpenAI's library: chats, texts, responses, tools, errors, aborts, many at once.
import assert from "node:assert/strict";
import test from "node:test";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.SMELT_URL + "/v1", apiKey: process.env.SMELT_KEY, maxRetries: 0 });
const model = "tiny";
const messages = [{ role: "user", content: "Tell me a story about Lily." }];
const usual = { model, messages, max_tokens: 24, temperature: 0 };
const add = {
  type: "function",
  function: {
    name: "add",
    description: "adds two digits",
    parameters: {
      type: "object",
      properties: { a: { enum: [1, 2] }, b: { enum: [1, 2] } },
      required: ["a", "b"],
      additionalProperties: false,
    },
  },
};

test("models are listed and found", async () => {
  const list = await client.models.list();
  assert.equal(list.data[0].id, model);
  assert.equal((await client.models.retrieve(model)).id, model);
  await assert.rejects(client.models.retrieve("other"), OpenAI.NotFoundError);
});

test("a chat as a whole and as a stream is the same", async () => {
  const whole = await client.chat.completions.create(usual);
  assert.equal(whole.choices[0].finish_reason, "length");
  assert.equal(whole.usage.completion_tokens, 24);
  const stream = await client.chat.completions.create({ ...usual, stream: true, stream_options: { include_usage: true } });
  let text = "", usage, reason;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    reason = chunk.choices[0]?.finish_reason ?? reason;
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(reason, "length");
  assert.deepEqual(usage.completion_tokens, 24);
  assert.ok(usage.prompt_tokens_details.cached_tokens > 0);
});

test("the helper for streams puts a message together", async () => {
  const runner = client.chat.completions.stream(usual);
  let events = 0;
  runner.on("content", () => ++events);
  const message = await runner.finalMessage();
  assert.ok(events > 1);
  assert.equal(message.content, (await client.chat.completions.create(usual)).choices[0].message.content);
});

test("logprobs, n, stop, seed", async () => {
  const found = await client.chat.completions.create({ ...usual, max_tokens: 6, logprobs: true, top_logprobs: 3 });
  const { content } = found.choices[0].logprobs;
  assert.equal(content.map((t) => t.token).join(""), found.choices[0].message.content);
  for (const t of content) {
    assert.equal(t.top_logprobs.length, 3);
    assert.equal(t.top_logprobs[0].logprob, t.logprob); // temperature 0 takes the most likely
    assert.ok(t.logprob <= 0);
  }
  const many = { ...usual, temperature: 1, n: 3, seed: 5, max_tokens: 48 };
  const once = await client.chat.completions.create(many), again = await client.chat.completions.create(many);
  const texts = (c) => c.choices.map((x) => x.message.content);
  assert.equal(once.choices.length, 3);
  assert.deepEqual(texts(once), texts(again));
  assert.equal(new Set(texts(once)).size, 3);
  const stopped = await client.chat.completions.create({ ...usual, max_tokens: 200, stop: ["Lily"] });
  assert.equal(stopped.choices[0].finish_reason, "stop");
  assert.ok(!stopped.choices[0].message.content.includes("Lily"));
});

test("JSON that a schema asks for", async () => {
  const schema = {
    type: "object",
    properties: { name: { type: "string", maxLength: 8 }, age: { enum: [3, 4] } },
    required: ["name", "age"],
    additionalProperties: false,
  };
  const found = await client.chat.completions.create({
    ...usual,
    max_tokens: 200,
    response_format: { type: "json_schema", json_schema: { name: "girl", schema, strict: true } },
  });
  const girl = JSON.parse(found.choices[0].message.content);
  assert.ok([3, 4].includes(girl.age));
  assert.equal(typeof girl.name, "string");
});

test("a call of a tool that is required, and the turn behind it", async () => {
  const asked = { ...usual, max_tokens: 200, tools: [add], tool_choice: "required", parallel_tool_calls: false };
  const whole = (await client.chat.completions.create(asked)).choices[0];
  assert.equal(whole.finish_reason, "tool_calls");
  const [call] = whole.message.tool_calls;
  assert.equal(call.function.name, "add");
  assert.ok([1, 2].includes(JSON.parse(call.function.arguments).a));
  const streamed = await client.chat.completions.stream(asked).finalMessage();
  assert.deepEqual(streamed.tool_calls[0].function.arguments, call.function.arguments);
  const next = await client.chat.completions.create({
    ...usual,
    messages: [...messages, whole.message, { role: "tool", tool_call_id: call.id, content: "3" }],
    tools: [add],
  });
  assert.ok(next.choices[0].message.content.length > 0);
});

test("texts, with logprobs", async () => {
  const found = await client.completions.create({ model, prompt: "Once upon", max_tokens: 5, temperature: 0, logprobs: 2 });
  assert.equal(found.choices[0].logprobs.tokens.join(""), found.choices[0].text);
  const several = await client.completions.create({ model, prompt: ["Once", "One day"], max_tokens: 3, temperature: 0 });
  assert.deepEqual(several.choices.map((c) => c.index), [0, 1]);
});

test("responses, as a whole, as a stream, with a tool", async () => {
  const input = "Tell me a story about Lily.";
  const whole = await client.responses.create({ model, input, max_output_tokens: 20, temperature: 0 });
  assert.equal(whole.status, "incomplete");
  assert.ok(whole.output_text.length > 20);
  const names = [];
  const stream = client.responses.stream({ model, input, max_output_tokens: 20, temperature: 0 });
  for await (const event of stream) names.push(event.type);
  const final = await stream.finalResponse();
  assert.equal(final.output_text, whole.output_text);
  assert.equal(names[0], "response.created");
  assert.equal(names.at(-1), "response.incomplete");
  const called = await client.responses.create({
    model,
    input,
    max_output_tokens: 200,
    temperature: 0,
    tools: [{ type: "function", ...add.function, strict: true }],
    tool_choice: "required",
    parallel_tool_calls: false,
  });
  const call = called.output.find((item) => item.type === "function_call");
  assert.equal(call.name, "add");
  const after = await client.responses.create({
    model,
    max_output_tokens: 8,
    input: [{ role: "user", content: input }, call, { type: "function_call_output", call_id: call.call_id, output: "3" }],
  });
  assert.equal(after.object, "response");
  await assert.rejects(client.responses.create({ model, input, previous_response_id: "resp_1" }), OpenAI.BadRequestError);
});

test("errors are of the kind that the library knows", async () => {
  const wrong = new OpenAI({ baseURL: client.baseURL, apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(wrong.chat.completions.create(usual), OpenAI.AuthenticationError);
  await assert.rejects(client.chat.completions.create({ ...usual, temperature: -1 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, "temperature");
    return true;
  });
  await assert.rejects(client.chat.completions.create({ ...usual, messages: [{ role: "user", content: "word ".repeat(4000) }] }), (error) => {
    assert.equal(error.code, "context_length_exceeded");
    return true;
  });
  await assert.rejects(client.embeddings.create({ model, input: "x" }), OpenAI.InternalServerError);
});

test("an abort ends the stream, and the server goes on", async () => {
  const stream = await client.chat.completions.create({ ...usual, max_tokens: 1500, stream: true });
  let seen = 0;
  for await (const _ of stream) if (++seen === 3) stream.controller.abort();
  assert.equal(seen, 3);
  const after = await client.chat.completions.create(usual);
  assert.equal(after.choices.length, 1);
});

test("many at once get what each would have got alone", async () => {
  const ask = (i) =>
    client.chat.completions.create({ ...usual, messages: [{ role: "user", content: `Tell me about ${i} dogs.` }], seed: i, temperature: 1 });
  const alone = [];
  for (let i = 0; i < 8; ++i) alone.push((await ask(i)).choices[0].message.content);
  const together = await Promise.all([...Array(8).keys()].map(ask));
  assert.deepEqual(together.map((c) => c.choices[0].message.content), alone);
});
