// An agent framework (OpenAI Agents, over chats and over responses) and the library behind many chat pages (Vercel's AI
// SDK).
import assert from "node:assert/strict";
import test from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, run, setTracingDisabled, tool } from "@openai/agents";
import { generateText, stepCountIs, streamText, tool as aiTool } from "ai";
import OpenAI from "openai";
import { z } from "zod";

setTracingDisabled(true);
const client = new OpenAI({ baseURL: process.env.SMELT_URL + "/v1", apiKey: process.env.SMELT_KEY, maxRetries: 0 });
const numbers = z.object({ a: z.enum(["one", "two"]), b: z.enum(["one", "two"]) });

for (const Model of [OpenAIChatCompletionsModel, OpenAIResponsesModel])
  test(`an agent calls its tool and goes on with what it said: ${Model.name}`, async () => {
    const calls = [];
    const agent = new Agent({
      name: "storyteller",
      instructions: "Tell stories.",
      model: new Model(client, "tiny"),
      modelSettings: { toolChoice: "required", parallelToolCalls: false, maxTokens: 800, temperature: 0 },
      tools: [tool({ name: "add", description: "adds", parameters: numbers, execute: (x) => (calls.push(x), "three") })],
    });
    const result = await run(agent, "Tell me about Lily.", { maxTurns: 4 });
    assert.equal(calls.length, 1);
    assert.equal(typeof result.finalOutput, "string");
    const stream = await run(agent, "Tell me about Lily.", { stream: true, maxTurns: 4 });
    let text = "";
    for await (const part of stream.toTextStream()) text += part;
    await stream.completed;
    assert.equal(calls.length, 2);
    assert.equal(text, stream.finalOutput);
  });

const smelt = createOpenAICompatible({ name: "smelt", baseURL: client.baseURL, apiKey: process.env.SMELT_KEY })("tiny");

test("a chat page's text comes as a stream", async () => {
  const asked = { model: smelt, prompt: "Tell me about Lily.", maxOutputTokens: 20, temperature: 0, maxRetries: 0 };
  const stream = streamText(asked);
  let text = "";
  for await (const part of stream.textStream) text += part;
  assert.equal(text, (await generateText(asked)).text);
  assert.equal(await stream.finishReason, "length");
});

test("a chat page's tool is called", async () => {
  const { steps } = await generateText({
    model: smelt,
    prompt: "Tell me about Lily.",
    maxOutputTokens: 100,
    temperature: 0,
    maxRetries: 0,
    toolChoice: "required",
    stopWhen: stepCountIs(1),
    tools: { add: aiTool({ description: "adds", inputSchema: numbers, execute: async () => "three" }) },
  });
  assert.equal(steps[0].toolResults[0].output, "three");
});
