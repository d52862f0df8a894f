// Lets the AI SDK and openai's library ask a model that learnt the conversations of examples/tool_chats.py, as their users do.
// usage: taught_client.mjs URL MODEL <QUESTIONS      taught.sh starts the server; QUESTIONS are of examples/tool_agent.py
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { z } from "zod";

const [url, name] = process.argv.slice(2);
const questions = readFileSync(0, "utf8").trim().split("\n").map((line) => JSON.parse(line));

// The functions themselves; each notes what it was called with, and what it returned.
let calls;
const noted = (name, run) => (input) => {
  const output = String(run(input));
  calls.push({ name, input, output });
  return output;
};
const functions = {
  add: { description: "Adds two numbers", schema: z.object({ a: z.number(), b: z.number() }), run: noted("add", ({ a, b }) => a + b) },
  weather: {
    description: "The weather in a city",
    schema: z.object({ city: z.string() }),
    run: noted("weather", ({ city }) => `${(7 * city.length + city.charCodeAt(1)) % 40} degrees, ${["rain", "snow", "fog"][city.length % 3]}`),
  },
  count: {
    description: "Counts a letter in a word",
    schema: z.object({ letter: z.string(), word: z.string() }),
    run: noted("count", ({ letter, word }) => word.split(letter).length - 1),
  },
};

const model = createOpenAICompatible({ name: "tapegrad", apiKey: "none", baseURL: `${url}/v1` })(name);
const tools = Object.fromEntries(
  Object.entries(functions).map(([name, { description, schema, run }]) => [name, tool({ description, inputSchema: schema, execute: run })]),
);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
const openaiTools = Object.entries(functions).map(([name, { description, schema, run }]) => ({
  type: "function",
  function: { name, description, parameters: z.toJSONSchema(schema), parse: JSON.parse, function: run },
}));
const asked = { model, tools, temperature: 0, stopWhen: stepCountIs(6), maxRetries: 0 };

// Each asks a question, lets the library run what the model calls, and returns the last answer.
const loops = {
  "ai, generateText": async (prompt) => (await generateText({ ...asked, prompt })).text,
  "ai, streamText": async (prompt) => {
    const stream = streamText({ ...asked, prompt, onError: ({ error }) => { throw error; } });
    await stream.consumeStream();
    return (await stream.steps).at(-1).text;
  },
  "openai, runTools": async (content) =>
    await client.chat.completions
      .runTools({ model: name, messages: [{ role: "user", content }], tools: openaiTools, temperature: 0 })
      .finalContent(),
};
for (const [loop, ask] of Object.entries(loops)) {
  let right = 0;
  for (const { question, calls: wanted } of questions) {
    calls = [];
    const answer = await ask(question);
    const made = calls.map(({ name, input }) => [name, input]);
    const isRight = JSON.stringify(made) === JSON.stringify(wanted) && answer.length > 0 && answer.includes(calls.at(-1)?.output ?? "");
    right += isRight;
    if (!isRight) console.log(`wrong: ${question}\n  called ${JSON.stringify(calls)}\n  said ${answer}`);
  }
  console.log(`${loop}: ${right} of ${questions.length} tries end with the right result`);
  assert.ok(right >= 0.95 * questions.length);
}
