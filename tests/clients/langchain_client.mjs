// Speaks to `tapegrad serve` with LangChain, as its users do.
// usage: langchain_client.mjs URL MODEL FORCED_URL      serve.sh starts the server, and what stands before FORCED_URL:
// forced_calls.py, which makes the model call multiply(6, 7), then nothing, twice
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI, OpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { createAgent } from "langchain";
import { z } from "zod";

const [url, model, forced] = process.argv.slice(2);
const chat = (fields = {}, base = url) =>
  new ChatOpenAI({ model, apiKey: "right-key", maxRetries: 0, maxTokens: 16, configuration: { baseURL: `${base}/v1` }, modelKwargs: { seed: 4 }, ...fields });
const messages = [new SystemMessage("be brief"), new HumanMessage("hello")];

const joined = (parts) => parts.map((part) => part.content).join("");
const collect = async (stream) => {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
};

// A chat, at once, as a stream and in a batch.
const answer = await chat().invoke(messages);
assert.ok(answer.content.length > 0);
assert.equal(answer.response_metadata.finish_reason, "length");
assert.equal(answer.usage_metadata.output_tokens, 16);
const parts = await collect(await chat().stream(messages));
assert.equal(joined(parts), answer.content);
assert.deepEqual(parts.reduce((sum, part) => sum.concat(part)).usage_metadata.total_tokens, answer.usage_metadata.total_tokens);
for (const { content } of await chat().batch([messages, messages])) assert.equal(content, answer.content);
const measured = await chat({ logprobs: true, topLogprobs: 2, frequencyPenalty: 0, presencePenalty: 0, topP: 1, n: 1, stop: ["\u0001never"], user: "somebody" }).invoke(messages);
assert.equal(measured.response_metadata.logprobs.content.length, 16);

// The same by /v1/responses.
const response = await chat({ useResponsesApi: true }).invoke(messages);
assert.equal(response.text, answer.content);
assert.ok((await collect(await chat({ useResponsesApi: true }).stream(messages))).length > 1);

// Calls: at once, as a stream, by /v1/responses; the result goes back.
const multiply = tool(({ a, b }) => String(a * b), {
  name: "multiply",
  description: "of two numbers",
  schema: z.object({ a: z.number().int().min(0).max(9), b: z.number().int().min(0).max(9) }),
});
const withTools = (fields, options) => chat({ maxTokens: 400, temperature: 2, ...fields }).bindTools([multiply], options);
for (const options of [{ tool_choice: "multiply" }, { tool_choice: "required" }, { tool_choice: "any" }, { tool_choice: "required", strict: true }]) {
  // A model of random weights would call without end.
  const called = await withTools({}, { ...options, parallel_tool_calls: false }).invoke(messages);
  for (const call of called.tool_calls) assert.ok(Number.isInteger(call.args.a) && call.args.b <= 9);
  assert.equal(called.response_metadata.finish_reason, "tool_calls");
  const results = await Promise.all(called.tool_calls.map((call) => multiply.invoke(call)));
  assert.ok(results[0] instanceof ToolMessage);
  const last = await withTools({ maxTokens: 16 }, { tool_choice: "none" }).invoke([...messages, called, ...results]);
  assert.equal(last.tool_calls.length, 0);
  assert.ok(last.usage_metadata.input_tokens > answer.usage_metadata.input_tokens);
}
const one = { tool_choice: "multiply", parallel_tool_calls: false };
const streamedCall = (await collect(await withTools({}, one).stream(messages))).reduce((sum, part) => sum.concat(part));
assert.deepEqual(streamedCall.tool_calls[0].args, (await withTools({}, one).invoke(messages)).tool_calls[0].args);
const responded = await withTools({ useResponsesApi: true }, one).invoke(messages);
assert.equal(responded.tool_calls[0].name, "multiply");
assert.ok((await withTools({ maxTokens: 16 }, {}).invoke(messages)).usage_metadata.output_tokens > 0); // "auto", as agents ask

// Answers of a schema, each way that there is.
const pet = z.object({ kind: z.enum(["cat", "dog"]), legs: z.number().int().min(0).max(9), names: z.array(z.enum(["Ada", "Bob"])).max(2), ages: z.partialRecord(z.enum(["Ada", "Bob"]), z.number().int().min(0).max(9)) });
for (const method of ["jsonSchema", "functionCalling"]) {
  for (const strict of [undefined, true]) {
    const found = await chat({ maxTokens: 400, temperature: 2 }).withStructuredOutput(pet, { name: "pet", method, strict }).invoke("which?");
    assert.deepEqual(pet.parse(found), found);
  }
}
const raw = await chat({ maxTokens: 400 }).withStructuredOutput(pet, { name: "pet", includeRaw: true }).invoke("which?");
assert.deepEqual(pet.parse(raw.parsed), raw.parsed);

// An agent's loop, at once and as a stream: the call, what the tool says, and the last answer.
const agent = createAgent({ model: chat({ maxTokens: 100 }, forced), tools: [multiply], systemPrompt: "be brief" });
const ran = (await agent.invoke({ messages: [new HumanMessage("how many are 6 times 7?")] })).messages;
assert.deepEqual(ran.map((message) => message.getType()), ["human", "ai", "tool", "ai"]);
assert.equal(ran[2].content, "42");
const steps = await collect(await agent.stream({ messages: [new HumanMessage("how many are 6 times 7?")] }, { streamMode: "updates" }));
assert.deepEqual(steps.flatMap((step) => Object.keys(step)), ["model_request", "tools", "model_request"]);

// Texts and vectors.
const text = await new OpenAI({ model, apiKey: "right-key", maxRetries: 0, maxTokens: 8, configuration: { baseURL: `${url}/v1` }, modelKwargs: { seed: 4 } }).invoke("once upon");
assert.ok(text.length > 0);
const vectors = await new OpenAIEmbeddings({ model, apiKey: "right-key", maxRetries: 0, configuration: { baseURL: `${url}/v1` } }).embedDocuments(["once upon", "a time"]);
assert.ok(Math.abs(vectors[1].reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5);

const version = (name) => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;
console.log(`@langchain/openai ${version("@langchain/openai")}, langchain ${version("langchain")}: all calls are answered as they should be`);
