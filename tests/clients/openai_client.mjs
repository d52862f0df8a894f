// Speaks to `tapegrad serve` with OpenAI's own JavaScript library, as its users do.
// usage: openai_client.mjs URL MODEL FORCED_URL      serve.sh starts the server, and what stands before FORCED_URL:
// forced_calls.py, which makes the model call multiply(6, 7), then nothing, twice
import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat } from "openai/helpers/zod";
import { VERSION } from "openai/version";
import { z } from "zod";

const [url, model, forced] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "right-key", maxRetries: 0 });
const messages = [{ role: "system", content: "be brief" }, { role: "user", content: "hello" }];

assert.deepEqual((await client.models.list()).data.map((one) => one.id), [model]);

// Texts, at once and as a stream.
let asked = { model, prompt: "once upon", max_tokens: 12, seed: 3, logprobs: 2, echo: true };
let answer = await client.completions.create(asked);
const { text } = answer.choices[0];
assert.ok(text.startsWith("once upon"));
let streamed = "";
let usage;
for await (const part of await client.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } })) {
  streamed += part.choices[0]?.text ?? "";
  usage = part.usage ?? usage;
}
assert.equal(streamed, text);
assert.deepEqual(usage, answer.usage);

// Chats.
asked = { model, messages, max_completion_tokens: 15, seed: 4, logprobs: true, top_logprobs: 3 };
answer = await client.chat.completions.create(asked);
const { content } = answer.choices[0].message;
const stream = client.chat.completions.stream(asked);
let deltas = "";
stream.on("content", (delta) => (deltas += delta));
const last = await stream.finalChatCompletion();
assert.equal(deltas, content);
assert.equal(last.choices[0].message.content, content);
assert.deepEqual(last.choices[0].logprobs.content, answer.choices[0].logprobs.content);
const left = await client.chat.completions.create({ ...asked, stream: true });
for await (const part of left) {
  assert.equal(part.choices[0].delta.role, "assistant");
  break; // a client that leaves
}

// Responses: the same texts.
const input = [{ role: "user", content: [{ type: "input_text", text: "hello" }] }];
const respond = { model, instructions: "be brief", input, max_output_tokens: 15, seed: 4, top_logprobs: 3, include: ["message.output_text.logprobs"] };
const response = await client.responses.create(respond);
assert.equal(response.output_text, content);
assert.equal(response.status, "incomplete");
assert.deepEqual(response.output[0].content[0].logprobs, answer.choices[0].logprobs.content);
const responding = client.responses.stream(respond);
let pieces = "";
const order = [];
responding.on("event", ({ type }) => order.at(-1) === type || order.push(type));
responding.on("response.output_text.delta", ({ delta }) => (pieces += delta));
const final = await responding.finalResponse();
assert.equal(pieces, content);
assert.deepEqual(final.output[0].content[0].logprobs, response.output[0].content[0].logprobs);
assert.deepEqual(final.usage, response.usage);
assert.deepEqual(order, [
  "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.done",
  "content_part.done", "output_item.done", "incomplete",
].map((type) => `response.${type}`));
const continued = await client.responses.create({ ...respond, input: [...input, ...final.output, ...input], store: false });
assert.ok(continued.usage.input_tokens > response.usage.input_tokens);
const schema = { type: "object", properties: { legs: { type: "integer", minimum: 0, maximum: 9 } }, required: ["legs"], additionalProperties: false };
const parsed = await client.responses.parse({ model, input: "a cat?", seed: 1, text: { format: { type: "json_schema", name: "pet", strict: true, schema } } });
assert.ok(JSON.parse(parsed.output_text).legs <= 9);
for await (const event of await client.responses.create({ ...respond, stream: true })) {
  assert.equal(event.type, "response.created");
  break; // a client that leaves
}

// Tools of responses: a call, at once and in events, and the loop to the last answer.
const parameters = { type: "object", properties: { city: { enum: ["Kiel", "Rome"] }, days: { type: "integer", minimum: 1, maximum: 9 } }, required: ["city", "days"], additionalProperties: false };
const weather = { type: "function", name: "weather", description: "of the next days", strict: true, parameters };
const calling = { model, input, tools: [weather, { type: "web_search" }], tool_choice: { type: "function", name: "weather" }, seed: 4, temperature: 2 };
const called = await client.responses.parse(calling);
const [call] = called.output;
assert.equal(called.output.length, 1);
assert.equal(called.status, "completed");
assert.ok(["Kiel", "Rome"].includes(call.parsed_arguments.city));
const calls = client.responses.stream(calling);
const callOrder = [];
let snapshot;
calls.on("event", ({ type }) => callOrder.at(-1) === type || callOrder.push(type));
calls.on("response.function_call_arguments.delta", (event) => (snapshot = event.snapshot));
const streamedCall = (await calls.finalResponse()).output[0];
assert.equal(snapshot, call.arguments);
assert.deepEqual({ ...streamedCall, id: "" }, { ...call, id: "" });
assert.deepEqual(callOrder, [
  "created", "in_progress", "output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done", "completed",
].map((type) => `response.${type}`));
const talk = [...input];
for (const tool_choice of ["required", { type: "allowed_tools", mode: "required", tools: [{ type: "function", name: "weather" }] }, "none"]) {
  const turn = await client.responses.parse({ ...calling, input: talk, tool_choice, parallel_tool_calls: false, max_output_tokens: tool_choice === "none" ? 20 : undefined });
  talk.push(...turn.output);
  const [item] = turn.output;
  assert.equal(item.type, tool_choice === "none" ? "message" : "function_call");
  if (item.type === "function_call") talk.push({ type: "function_call_output", call_id: item.call_id, output: `rain for ${item.parsed_arguments.days} days` });
}

// Calls of a chat, at once and as a stream, and the library's own loop to the last answer.
const Factors = z.object({ a: z.number().int().min(0).max(9), b: z.number().int().min(0).max(9) });
const multiply = { name: "multiply", parameters: Factors, function: ({ a, b }) => String(a * b) };
const counting = { model, messages, tools: [zodFunction(multiply)], tool_choice: "required", parallel_tool_calls: false, seed: 4, temperature: 2 };
const counted = (await client.chat.completions.parse(counting)).choices[0];
assert.equal(counted.finish_reason, "tool_calls");
assert.deepEqual(Factors.parse(counted.message.tool_calls[0].function.parsed_arguments), JSON.parse(counted.message.tool_calls[0].function.arguments));
const countedStream = await client.chat.completions.stream(counting).finalChatCompletion();
assert.deepEqual(countedStream.choices[0].message.tool_calls, counted.message.tool_calls);
const clientOfForced = new OpenAI({ baseURL: `${forced}/v1`, apiKey: "right-key", maxRetries: 0 });
for (const stream of [false, true]) {
  const runnable = { type: "function", function: { ...multiply, parameters: z.toJSONSchema(Factors), parse: JSON.parse } };
  const runner = clientOfForced.chat.completions.runTools({ model, messages, tools: [runnable], seed: 4, stream });
  await runner.done();
  assert.equal(await runner.finalFunctionToolCallResult(), "42");
  assert.deepEqual(runner.messages.map((message) => message.role), ["system", "user", "assistant", "tool", "assistant"]);
}

// Answers of zod's schemas.
const Pet = z.object({ kind: z.enum(["cat", "dog"]), legs: z.number().int().min(0).max(9), names: z.array(z.enum(["Ada", "Bob"])).max(2) });
const chosen = await client.chat.completions.parse({ model, messages, seed: 4, temperature: 2, response_format: zodResponseFormat(Pet, "pet") });
assert.deepEqual(Pet.parse(chosen.choices[0].message.parsed), chosen.choices[0].message.parsed);
const chosenToo = await client.responses.parse({ model, input, seed: 4, temperature: 2, text: { format: zodTextFormat(Pet, "pet") } });
assert.deepEqual(Pet.parse(chosenToo.output_parsed), chosenToo.output_parsed);
const multiplied = await client.responses.parse({ ...calling, tools: [zodResponsesFunction(multiply)], tool_choice: "required", parallel_tool_calls: false });
assert.ok(Factors.safeParse(multiplied.output[0].parsed_arguments).success);

// Vectors: the library asks for base64 and returns floats.
const { data } = await client.embeddings.create({ model, input: ["once upon", "a time"] });
for (const { embedding } of data) assert.ok(Math.abs(embedding.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5);

const refused = (kind, param, code, call) =>
  assert.rejects(call, (error) => error instanceof kind && error.param === param && error.code === code);
await refused(OpenAI.BadRequestError, "best_of", "unsupported_parameter", () => client.completions.create({ model, prompt: "a", best_of: 4 }));
await refused(OpenAI.BadRequestError, "max_tokens", "context_length_exceeded", () => client.completions.create({ model, prompt: "a", max_tokens: 100000 }));
await refused(OpenAI.NotFoundError, "model", "model_not_found", () => client.completions.create({ model: "gpt-5", prompt: "a" }));
await refused(OpenAI.BadRequestError, "messages[0].content", "invalid_type", () => client.chat.completions.create({ model, messages: [{ role: "user", content: 5 }] }));
await refused(OpenAI.BadRequestError, "previous_response_id", "unsupported_parameter", () => client.responses.create({ model, input: "a", previous_response_id: "resp_1" }));
await refused(OpenAI.BadRequestError, "input[0].content[0].type", "invalid_value", () => client.responses.create({ model, input: [{ role: "user", content: [{ type: "input_image", image_url: "a" }] }] }));
await refused(OpenAI.BadRequestError, "tool_choice.name", "invalid_value", () => client.responses.create({ ...calling, tool_choice: { type: "function", name: "wind" } }));
await refused(OpenAI.BadRequestError, "input[1].call_id", "invalid_value", () => client.responses.create({ model, input: [...input, { type: "function_call_output", call_id: "a", output: "b" }] }));
await refused(OpenAI.NotFoundError, null, "not_found", () => client.responses.retrieve("resp_1"));
const stranger = new OpenAI({ baseURL: `${url}/v1`, apiKey: "wrong-key", maxRetries: 0 });
await refused(OpenAI.AuthenticationError, null, "invalid_api_key", () => stranger.models.list());
console.log(`openai ${VERSION} (JavaScript): all calls are answered as they should be`);
