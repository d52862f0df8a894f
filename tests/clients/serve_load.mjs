// usage: node tests/clients/serve_load.mjs BUILD_FOLDER [--minutes N] [--clients N] [--seed N]
// Random load on `tapegrad serve` with two adapters: clients that read answers, cancel, stall and send rubbish.
// Each answer that comes must be the one that the same request gets alone, from a server with nothing else to do.
// The server must live, forget nothing that it should, and have the memory at the end that it had after the first
// tenth of the time, up to 2 %.
import { spawn } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const [build, ...words] = process.argv.slice(2);
if (!build || !fs.existsSync(build)) {
  console.error("usage: node tests/clients/serve_load.mjs BUILD_FOLDER [--minutes N] [--clients N] [--seed N]");
  process.exit(2);
}
const option = (name, otherwise) => (words.includes(name) ? Number(words[words.indexOf(name) + 1]) : otherwise);
const minutes = option("--minutes", 60);
const clients = option("--clients", 32);
const MOST_GROWTH = 0.02;

// Chance, the same for each run with a seed (mulberry32).
let state = option("--seed", 1);
function random() {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const below = (n) => Math.floor(random() * n);
const one = (list) => list[below(list.length)];
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// The model and its adapters.

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "tapegrad-load-"));
process.on("exit", () => fs.rmSync(folder, { recursive: true, force: true }));
const golden = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../golden/hf_qwen2");
const model = path.join(folder, "tiny-chat");
fs.mkdirSync(model);
const config = JSON.parse(fs.readFileSync(path.join(golden, "config.json")));
fs.writeFileSync(path.join(model, "config.json"), JSON.stringify({ ...config, max_position_embeddings: 1024 }));
for (const name of ["model.safetensors", "tokenizer.json"]) fs.copyFileSync(path.join(golden, name), path.join(model, name));
const template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]";
fs.writeFileSync(path.join(model, "tokenizer_config.json"), JSON.stringify({ chat_template: template, eos_token: "<|endoftext|>" }));

function writeSafetensors(file, tensors) {
  const header = {};
  const parts = [];
  let offset = 0;
  for (const [name, shape] of tensors) {
    const values = Float32Array.from({ length: shape[0] * shape[1] }, () => random() - 0.5);
    header[name] = { dtype: "F32", shape, data_offsets: [offset, offset + values.byteLength] };
    offset += values.byteLength;
    parts.push(Buffer.from(values.buffer));
  }
  const text = Buffer.from(JSON.stringify(header));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  fs.writeFileSync(file, Buffer.concat([size, text, ...parts]));
}

function writeAdapter(name, layers) {
  const to = path.join(folder, name);
  fs.mkdirSync(to);
  const tensors = [];
  for (const block of [0, 1]) {
    for (const [layer, out, width] of layers) {
      const prefix = `base_model.model.model.layers.${block}.${layer}`;
      tensors.push([`${prefix}.lora_A.weight`, [4, width]], [`${prefix}.lora_B.weight`, [out, 4]]);
    }
  }
  writeSafetensors(path.join(to, "adapter_model.safetensors"), tensors);
  const about = { peft_type: "LORA", r: 4, lora_alpha: 8, target_modules: layers.map(([layer]) => layer.split(".")[1]) };
  fs.writeFileSync(path.join(to, "adapter_config.json"), JSON.stringify(about));
  return ["--lora", `${name}=${to}`];
}
const adapters = [
  ...writeAdapter("poet", [["self_attn.q_proj", 16, 16], ["self_attn.v_proj", 8, 16]]),
  ...writeAdapter("clerk", [["mlp.down_proj", 16, 40]]),
];

// Servers.

const children = new Set();
process.on("exit", () => children.forEach((child) => child.kill("SIGKILL")));

async function serve(...more) {
  const args = ["serve", model, "--port", "0", "--threads", "1", "--log", "none", ...adapters, ...more];
  const child = spawn(path.join(build, "bin/tapegrad"), args, { stdio: ["ignore", "pipe", "pipe"] });
  children.add(child);
  const server = { child, errors: "", ended: null };
  child.on("exit", (code, signal) => (server.ended = signal ?? code));
  child.stderr.on("data", (bytes) => (server.errors = (server.errors + bytes).slice(-4000)));
  server.port = await new Promise((resolve, reject) => {
    let said = "";
    child.stdout.on("data", (bytes) => {
      said += bytes;
      const found = said.match(/serving: http:\/\/127\.0\.0\.1:(\d+)/);
      if (found) resolve(Number(found[1]));
    });
    child.on("exit", () => reject(new Error(`serve ended: ${server.errors}`)));
  });
  return server;
}
// KiB
const residentOf = (server) => Number(fs.readFileSync(`/proc/${server.child.pid}/status`, "utf8").match(/VmRSS:\s+(\d+)/)[1]);

// Requests.

const WORDS = "once upon a time the king and queen had three daughters who went to sea in spring".split(" ");
const PROMPTS = Array.from({ length: 12 }, () => Array.from({ length: 1 + below(120) }, () => one(WORDS)).join(" "));
const SCHEMAS = [
  { type: "object", properties: { name: { type: "string", maxLength: 8 }, age: { type: "integer" } }, required: ["name", "age"] },
  { type: "array", items: { enum: ["red", "green", 3, null] }, maxItems: 4 },
  { type: "object", additionalProperties: { type: "boolean" }, maxProperties: 2 },
];

function anyRequest(i) {
  const body = { model: one(["tiny-chat", "poet", "clerk"]), seed: i, temperature: one([0, 0.7, 1, 1.3]), max_tokens: 1 + below(120) };
  if (below(3) === 0) body.top_k = 1 + below(60);
  if (below(4) === 0) body.top_p = 0.9;
  if (below(5) === 0) body.repetition_penalty = 1.2;
  if (below(6) === 0) body.response_format = { type: "json_schema", json_schema: { schema: one(SCHEMAS) } };
  if (below(8) === 0) body.stop = one(["the", "a", "e"]);
  if (below(8) === 0) body.n = 2 + below(2);
  if (below(3) === 0) {
    const messages = [{ role: "user", content: one(PROMPTS) }];
    return { path: "/v1/chat/completions", body: { ...body, messages, ...(below(2) ? { logprobs: true, top_logprobs: below(5) } : {}) } };
  }
  if (below(10) === 0) return { path: "/v1/embeddings", body: { model: body.model, input: one(PROMPTS) } };
  return { path: "/v1/completions", body: { ...body, prompt: one(PROMPTS), ...(below(2) ? { logprobs: below(5) } : {}), echo: below(4) === 0 } };
}

const head = (path, length, more = "") =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n${more}\r\n`;
const bytesOf = ({ path, body }) => {
  const text = JSON.stringify(body);
  return head(path, Buffer.byteLength(text)) + text;
};

/** The server's answer to `bytes` until it ends the connection; `act` may do something with the socket. */
function exchange(port, bytes, act = () => {}) {
  return new Promise((resolve) => {
    const parts = [];
    const socket = net.connect(port, "127.0.0.1");
    socket.setTimeout(120000, () => socket.destroy());
    socket.on("data", (part) => parts.push(part));
    socket.on("error", () => {});
    socket.on("close", () => resolve(Buffer.concat(parts).toString()));
    socket.on("connect", () => {
      if (bytes) socket.write(bytes);
      act(socket);
    });
  });
}

const statusOf = (reply) => Number(reply.match(/^HTTP\/1\.1 (\d+)/)?.[1] ?? 0);

/** The part of two answers that must be equal: all that is not new each time. */
function essence(text) {
  const json = JSON.parse(text);
  for (const key of ["id", "created"]) delete json[key];
  return JSON.stringify(json);
}
const answerIn = (reply) => essence(reply.slice(reply.indexOf("\r\n\r\n") + 4));

/** The texts and ends of a stream, as of an answer that came at once. */
function streamed(reply) {
  const choices = [];
  for (const line of reply.slice(reply.indexOf("\r\n\r\n") + 4).split("\n\n")) {
    if (!line.startsWith("data: {")) continue;
    for (const choice of JSON.parse(line.slice(6)).choices) {
      const own = (choices[choice.index] ??= { text: "", finish: null });
      own.text += choice.text ?? choice.delta?.content ?? "";
      own.finish = choice.finish_reason ?? own.finish;
    }
  }
  return JSON.stringify(choices);
}
const textsOf = (answer) =>
  JSON.stringify(JSON.parse(answer).choices.map((c) => ({ text: c.text ?? c.message.content, finish: c.finish_reason })));

// The actions of clients.

const counts = {};
const count = (what) => (counts[what] = (counts[what] ?? 0) + 1);
const wrong = [];

async function reads(server, request) {
  const reply = await exchange(server.port, bytesOf(request));
  if (statusOf(reply) === 429) return count("queue full");
  if (statusOf(reply) !== 200) return wrong.push({ why: "no answer", request, reply: reply.slice(0, 500) });
  if (answerIn(reply) !== request.alone) wrong.push({ why: "another answer", request, reply: answerIn(reply).slice(0, 500) });
  count("answers");
}

async function streams(server, request) {
  const reply = await exchange(server.port, bytesOf({ path: request.path, body: { ...request.body, stream: true } }));
  if (statusOf(reply) === 429) return count("queue full");
  if (!reply.endsWith("data: [DONE]\n\n")) return wrong.push({ why: "no whole stream", request, reply: reply.slice(-500) });
  if (streamed(reply) !== textsOf(request.alone)) wrong.push({ why: "another stream", request, reply: streamed(reply) });
  count("streams");
}

async function cancels(server, request) {
  const body = { ...request.body, ...(request.body.input ? {} : { stream: below(2) === 0 }) };
  await exchange(server.port, bytesOf({ path: request.path, body }), (socket) => setTimeout(() => (below(2) ? socket.destroy() : socket.resetAndDestroy()), below(60)));
  count("cancelled");
}

/** Sends a part, or reads nothing, and goes after a while. */
async function stalls(server, request) {
  const bytes = bytesOf({ path: request.path, body: request.body.input ? request.body : { ...request.body, stream: true } });
  const part = below(2) ? bytes.slice(0, below(bytes.length)) : bytes;
  await exchange(server.port, part, (socket) => {
    socket.pause();
    setTimeout(() => socket.destroy(), 500 + below(4000));
  });
  count("stalled");
}

const RUBBISH = [
  () => Buffer.from(Array.from({ length: 1 + below(3000) }, () => below(256))),
  () => "GET /" + "a".repeat(below(40000)) + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
  () => head("/v1/completions", 30) + '{"prompt": [[[[[[[[[[[[[[[[[[[[',
  () => bytesOf({ path: one(["/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize", "/nothing"]), body: one([[], 5, null, {}, { prompt: {} }, { messages: [{}] }, { prompt: "a", n: 1e9 }, { prompt: "a", max_tokens: 1e9 }, { tokens: [-1] }]) }),
  () => bytesOf({ path: "/v1/completions", body: { prompt: "a", response_format: { type: "json_schema", json_schema: { schema: one([{ type: "x" }, { $ref: "#" }, { not: {} }, { pattern: "(" }]) } } } }),
  () => head("/v1/completions", 20, "Transfer-Encoding: chunked\r\n") + "zz\r\n",
  () => head("/v1/chat/completions", 1e12),
  () => "POST /v1/completions HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\n{}",
];
async function rubbish(server) {
  const reply = await exchange(server.port, one(RUBBISH)(), (socket) => setTimeout(() => socket.destroy(), 50 + below(500)));
  const status = statusOf(reply);
  if (status === 500 || (status >= 200 && status < 300 && !reply.includes('"object"'))) wrong.push({ why: "rubbish was answered", reply: reply.slice(0, 500) });
  count("rubbish");
}

async function client(server, pool, end) {
  while (Date.now() < end && server.ended === null) {
    const request = one(pool);
    const way = below(20);
    if (way < 8) await reads(server, request);
    else if (way < 12) await (request.body.input ? reads : streams)(server, request);
    else if (way < 15) await cancels(server, request);
    else if (way < 17) await stalls(server, request);
    else await rubbish(server);
    await sleep(below(50));
  }
}

// The run.

const quiet = await serve("--parallel", "1");
const pool = [];
for (let i = 0; pool.length < 300; ++i) {
  const request = anyRequest(i);
  const reply = await exchange(quiet.port, bytesOf(request));
  if (statusOf(reply) !== 200) throw new Error(`${JSON.stringify(request)}: ${reply}`);
  pool.push({ ...request, alone: answerIn(reply) });
}
quiet.child.kill("SIGKILL");
console.log(`${pool.length} requests have their answers; ${clients} clients for ${minutes} min`);

const server = await serve("--parallel", "8", "--max-waiting", "24", "--cache-memory", "16");
const begin = Date.now();
const end = begin + minutes * 60000;
const resident = [];
const looks = setInterval(() => {
  if (server.ended === null) resident.push({ at: (Date.now() - begin) / (end - begin), kib: residentOf(server) });
}, 1000);
const tells = setInterval(() => console.log(`${Math.round((Date.now() - begin) / 60000)} min: ${JSON.stringify(counts)}, ${resident.at(-1)?.kib} KiB, ${wrong.length} wrong`), 60000);
await Promise.all(Array.from({ length: clients }, () => client(server, pool, end)));
clearInterval(looks);
clearInterval(tells);
await sleep(2000);

const median = (list) => list.map(({ kib }) => kib).sort((a, b) => a - b)[list.length >> 1];
const first = median(resident.filter(({ at }) => at >= 0.05 && at < 0.15));
const last = median(resident.filter(({ at }) => at >= 0.9));
const metrics = server.ended === null ? await exchange(server.port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") : "";
const metric = (name) => Number(metrics.match(new RegExp(`\n${name} ([\\d.e+-]+)`))?.[1] ?? NaN);
if (server.ended !== null) wrong.push({ why: `the server ended: ${server.ended}`, reply: server.errors });
for (const name of ["tapegrad_texts_running", "tapegrad_cache_positions", "tapegrad_jobs_waiting"]) {
  if (metric(name) !== 0) wrong.push({ why: `${name} is ${metric(name)} at the end` });
}
if (!(last <= first * (1 + MOST_GROWTH))) wrong.push({ why: `memory grew from ${first} to ${last} KiB` });
console.log(JSON.stringify(counts));
console.log(`memory: ${first} KiB after the first tenth, ${last} KiB at the end: ${(100 * (last / first - 1)).toFixed(2)} %`);
console.log(`jobs: ${metric("tapegrad_jobs_total")}, cancelled ${metric("tapegrad_jobs_cancelled_total")}, failed ${metric("tapegrad_jobs_failed_total")}, steps ${metric("tapegrad_steps_total")}`);
for (const what of wrong.slice(0, 10)) console.log(JSON.stringify(what).slice(0, 2000));
console.log(wrong.length === 0 ? "all right" : `${wrong.length} wrong`);
process.exit(wrong.length === 0 ? 0 : 1);
