// Speaks to `tapegrad serve` with the AI SDK, as its users do.
// usage: ai_sdk_client.mjs URL MODEL FORCED_URL      serve.sh starts the server, and what stands before FORCED_URL:
// forced_calls.py, which makes the model call multiply(6, 7), then nothing, twice
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, Output, embedMany, generateObject, generateText, stepCountIs, streamObject, streamText, tool } from "ai";
import { z } from "zod";

const [url, name, forced] = process.argv.slice(2);
const provider = (fields = {}, base = url) =>
  createOpenAICompatible({ name: "tapegrad", apiKey: "right-key", baseURL: `${base}/v1`, includeUsage: true, supportsStructuredOutputs: true, ...fields });
const model = provider()(name);
const asked = { model, system: "be brief", prompt: "hello", maxOutputTokens: 16, seed: 4, maxRetries: 0 };
const failed = (error) => { throw error; };

// A chat, at once and as a stream.
const answer = await generateText(asked);
assert.ok(answer.text.length > 0);
assert.equal(answer.finishReason, "length");
assert.equal(answer.usage.outputTokens, 16);
assert.deepEqual(answer.warnings, []);
const stream = streamText({ ...asked, onError: ({ error }) => failed(error) });
let text = "";
for await (const piece of stream.textStream) text += piece;
assert.equal(text, answer.text);
assert.equal((await stream.usage).totalTokens, answer.usage.totalTokens);
const leaving = new AbortController();
for await (const part of streamText({ ...asked, maxOutputTokens: 1000, abortSignal: leaving.signal }).textStream) {
  assert.equal(typeof part, "string");
  leaving.abort(); // a client that leaves
}
const settings = { temperature: 0.5, topP: 0.9, presencePenalty: 0.5, frequencyPenalty: 0.5, stopSequences: ["\u0001never"] };
assert.ok((await generateText({ ...asked, ...settings, providerOptions: { tapegrad: { user: "somebody", reasoningEffort: "medium", textVerbosity: "medium" } } })).usage.inputTokens > 0);

// Calls, at once and as a stream.
const multiply = tool({
  description: "of two numbers",
  inputSchema: z.object({ a: z.number().int().min(0).max(9), b: z.number().int().min(0).max(9) }),
  execute: ({ a, b }) => a * b,
});
// A model of random weights would call without end.
const providerOptions = { tapegrad: { parallel_tool_calls: false } };
const calling = { ...asked, tools: { multiply }, temperature: 2, maxOutputTokens: 400, providerOptions };
for (const toolChoice of ["required", { type: "tool", toolName: "multiply" }]) {
  const called = await generateText({ ...calling, toolChoice });
  assert.equal(called.finishReason, "tool-calls");
  for (const { output, input } of called.toolResults) assert.equal(output, input.a * input.b);
  assert.ok(called.toolResults.length > 0 && called.toolCalls.every((call) => !call.invalid));
  const streaming = streamText({ ...calling, toolChoice, onError: ({ error }) => failed(error) });
  await streaming.consumeStream();
  assert.deepEqual((await streaming.toolCalls).map((call) => call.input), called.toolCalls.map((call) => call.input));
}
for (const toolChoice of ["auto", "none"]) assert.ok((await generateText({ ...calling, toolChoice, maxOutputTokens: 16 })).usage.outputTokens > 0);

// Steps: the call, what the tool says, and the last answer.
const looping = { ...calling, model: provider({}, forced)(name), prompt: "how many are 6 times 7?", maxOutputTokens: 100, stopWhen: stepCountIs(5) };
const { steps, response } = await generateText(looping);
assert.equal(steps.length, 2);
assert.equal(steps[0].toolResults[0].output, 42);
assert.deepEqual(response.messages.map((message) => message.role), ["assistant", "tool", "assistant"]);
const streamedSteps = streamText({ ...looping, onError: ({ error }) => failed(error) });
await streamedSteps.consumeStream();
assert.equal((await streamedSteps.steps)[0].toolResults[0].output, 42);
assert.equal((await streamedSteps.steps).length, 2);

// Answers of a schema.
const pet = z.object({ kind: z.enum(["cat", "dog"]), legs: z.number().int().min(0).max(9), names: z.array(z.enum(["Ada", "Bob"])).max(2), ages: z.partialRecord(z.enum(["Ada", "Bob"]), z.number().int().min(0).max(9)) });
const shaped = { ...asked, temperature: 2, maxOutputTokens: 400 };
const { object } = await generateObject({ ...shaped, schema: pet });
assert.deepEqual(pet.parse(object), object);
const objects = streamObject({ ...shaped, schema: pet, onError: ({ error }) => failed(error) });
for await (const partial of objects.partialObjectStream) assert.equal(typeof partial, "object");
assert.deepEqual(await objects.object, object);
assert.deepEqual((await generateText({ ...shaped, output: Output.object({ schema: pet }) })).output, object);
assert.ok(["sunny", "rainy"].includes((await generateText({ ...shaped, output: Output.choice({ options: ["sunny", "rainy"] }) })).output));
const both = await generateText({ ...shaped, tools: { multiply }, toolChoice: "none", output: Output.object({ schema: pet }) });
assert.deepEqual(pet.parse(both.output), both.output);
// A provider that is not told of schemas asks for any JSON.
const json = await generateObject({ ...shaped, model: provider({ supportsStructuredOutputs: false })(name), output: "no-schema" }).catch((error) => error);
assert.ok(json.object !== undefined || json.finishReason === "length", json);

// Texts and vectors.
assert.ok((await generateText({ model: provider().completionModel(name), prompt: "once upon", maxOutputTokens: 8, seed: 4, maxRetries: 0 })).text.length > 0);
const { embeddings } = await embedMany({ model: provider().embeddingModel(name), values: ["once upon", "a time"], maxRetries: 0 });
assert.ok(Math.abs(embeddings[1].reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5);

await assert.rejects(generateText({ ...asked, model: provider()("gpt-5") }), (error) => APICallError.isInstance(error) && error.statusCode === 404 && /gpt-5/.test(error.message));
const version = (of) => JSON.parse(readFileSync(new URL(`node_modules/${of}/package.json`, import.meta.url))).version;
console.log(`ai ${version("ai")}, @ai-sdk/openai-compatible ${version("@ai-sdk/openai-compatible")}: all calls are answered as they should be`);
