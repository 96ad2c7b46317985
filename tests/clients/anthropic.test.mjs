// Anthropic's library: messages, streams with their events, tools, counting, errors, aborts.
import assert from "node:assert/strict";
import test from "node:test";
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: process.env.SMELT_URL, apiKey: process.env.SMELT_KEY, maxRetries: 0 });
const usual = {
  model: "tiny",
  max_tokens: 24,
  temperature: 0,
  messages: [{ role: "user", content: "Tell me a story about Lily." }],
};
const add = {
  name: "add",
  description: "adds two digits",
  input_schema: {
    type: "object",
    properties: { a: { enum: [1, 2] }, b: { enum: [1, 2] } },
    required: ["a", "b"],
    additionalProperties: false,
  },
};

test("a message as a whole and as a stream is the same", async () => {
  const whole = await client.messages.create(usual);
  assert.equal(whole.stop_reason, "max_tokens");
  assert.equal(whole.usage.output_tokens, 24);
  const names = new Set();
  const stream = client.messages.stream(usual);
  for await (const event of stream) names.add(event.type);
  const final = await stream.finalMessage();
  assert.deepEqual(final.content, whole.content);
  assert.equal(final.stop_reason, "max_tokens");
  assert.equal(final.usage.output_tokens, 24);
  assert.ok(final.usage.cache_read_input_tokens > 0);
  for (const name of ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"])
    assert.ok(names.has(name), name);
});

test("a message that may think is the same as a whole and as a stream", async () => {
  const asked = { ...usual, thinking: { type: "enabled", budget_tokens: 1024 } };
  const message = await client.messages.create(asked);
  assert.deepEqual((await client.messages.stream(asked).finalMessage()).content, message.content);
});

test("stop sequences are told", async () => {
  const message = await client.messages.create({ ...usual, max_tokens: 200, stop_sequences: ["Lily"] });
  assert.equal(message.stop_reason, "stop_sequence");
  assert.equal(message.stop_sequence, "Lily");
});

test("a call of a tool that is asked for, and the turn behind it", async () => {
  for (const tool_choice of [{ type: "any", disable_parallel_tool_use: true }, { type: "tool", name: "add", disable_parallel_tool_use: true }]) {
    const asked = { ...usual, max_tokens: 200, tools: [add], tool_choice };
    const message = await client.messages.create(asked);
    assert.equal(message.stop_reason, "tool_use");
    const call = message.content.find((block) => block.type === "tool_use");
    assert.equal(call.name, "add");
    assert.ok([1, 2].includes(call.input.a));
    const streamed = await client.messages.stream(asked).finalMessage();
    assert.deepEqual(streamed.content.find((block) => block.type === "tool_use").input, call.input);
    const next = await client.messages.create({
      ...usual,
      tools: [add],
      messages: [
        ...usual.messages,
        { role: "assistant", content: message.content },
        { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "3" }] },
      ],
    });
    assert.equal(next.type, "message");
  }
});

test("tokens are counted", async () => {
  const { input_tokens } = await client.messages.countTokens({ model: "tiny", messages: usual.messages });
  const message = await client.messages.create(usual);
  assert.equal(input_tokens, message.usage.input_tokens + message.usage.cache_read_input_tokens);
});

test("models are listed", async () => {
  const models = [];
  for await (const model of client.models.list()) models.push(model.id);
  assert.deepEqual(models, ["tiny"]);
});

test("errors are of the kind that the library knows", async () => {
  const wrong = new Anthropic({ baseURL: client.baseURL, apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(wrong.messages.create(usual), Anthropic.AuthenticationError);
  await assert.rejects(client.messages.create({ ...usual, max_tokens: undefined }), (error) => {
    assert.ok(error instanceof Anthropic.BadRequestError);
    assert.match(error.message, /max_tokens/);
    return true;
  });
});

test("an abort ends the stream, and the server goes on", async () => {
  const stream = client.messages.stream({ ...usual, max_tokens: 1500 });
  await assert.rejects(async () => {
    let seen = 0;
    for await (const _ of stream) if (++seen === 5) stream.abort();
    await stream.finalMessage();
  }, Anthropic.APIUserAbortError);
  assert.equal((await client.messages.create(usual)).type, "message");
});
