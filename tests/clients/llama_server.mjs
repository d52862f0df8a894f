// usage: node tests/clients/llama_server.mjs BUILD_FOLDER MODEL.gguf [--rounds N] [--tokens N] [--clients 1,8,24]
// Tokens per second and the time to the first one of `tapegrad serve` beside llama-server with the same GGUF file:
// two threads and 24 places each, in turn, round for round; the one that waits is stopped. CLIENTS in the
// environment is put before llama-server, where it is in another root.
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

const [build, model, ...words] = process.argv.slice(2);
if (!model) {
  console.error("usage: node tests/clients/llama_server.mjs BUILD_FOLDER MODEL.gguf [--rounds N] [--tokens N] [--clients 1,8,24]");
  process.exit(2);
}
const option = (name, otherwise) => (words.includes(name) ? words[words.indexOf(name) + 1] : otherwise);
const rounds = Number(option("--rounds", 5));
const tokens = Number(option("--tokens", 128));
const crowds = option("--clients", "1,8,24").split(",").map(Number);
const places = Math.max(...crowds);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

const log = fs.openSync(path.join(os.tmpdir(), "llama_server.log"), "w");
const start = (port, [command, ...given]) => ({
  url: `http://127.0.0.1:${port}/v1/completions`,
  child: spawn(command, given, { stdio: ["ignore", log, log] }),
});
const servers = {
  "llama-server": start(8171, [...(process.env.CLIENTS ?? "").split(" ").filter(Boolean), "llama-server", "-m", model, "--port",
    "8171", "-t", "2", "-tb", "2", "-np", `${places}`, "-c", `${1024 * places}`, "--no-webui"]),
  tapegrad: start(8172, [`${build}/bin/tapegrad`, "serve", model, "--port", "8172", "--threads", "2",
    "--parallel", `${places}`, "--name", "any"]),
};
process.on("exit", () => Object.values(servers).forEach(({ child }) => child.kill("SIGKILL")));

async function answer(url, prompt) {
  const begin = performance.now();
  let first;
  const response = await fetch(url, {
    method: "POST", headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "any", prompt, max_tokens: tokens, ignore_eos: true, temperature: 0.8, seed: 7,
      stream: true, stream_options: { include_usage: true } }),
  });
  if (!response.ok) throw new Error(`${url}: ${await response.text()}`);
  let text = "", usage;
  const decoder = new TextDecoder();
  for await (const bytes of response.body) {
    first ??= performance.now();
    text += decoder.decode(bytes, { stream: true });
  }
  for (const line of text.split("\n")) {
    if (line.startsWith("data: {")) usage = JSON.parse(line.slice(6)).usage ?? usage;
  }
  return { first: first - begin, tokens: usage.completion_tokens };
}

// Prompts that nothing has seen before, so that no kept beginning helps.
let number = 0;
const prompt = () => `Number ${++number * 7919} of those that came: the harbour, the mill and the road to the north.`;

async function crowd(server, clients) {
  const begin = performance.now();
  const answers = await Promise.all(Array.from({ length: clients }, () => answer(server.url, prompt())));
  const seconds = (performance.now() - begin) / 1000;
  return { rate: answers.reduce((sum, a) => sum + a.tokens, 0) / seconds, first: median(answers.map((a) => a.first)) };
}

for (const [name, server] of Object.entries(servers)) {
  for (let tries = 0; ; ++tries) {
    try { await crowd(server, 1); break; } catch (error) {
      if (tries === 60) throw new Error(`${name} does not answer: ${error}`);
      await sleep(1000);
    }
  }
}
console.log("clients   tokens per second: llama-server   tapegrad   ratio (of pairs)   first token, ms: llama-server   tapegrad");
for (const clients of crowds) {
  const seen = { "llama-server": [], tapegrad: [] };
  for (let round = -1; round < rounds; ++round) {  // the first warms caches up
    for (const [name, server] of Object.entries(servers)) {
      const other = Object.values(servers).find((s) => s !== server);
      other.child.kill("SIGSTOP");
      server.child.kill("SIGCONT");
      await sleep(200);
      const result = await crowd(server, clients);
      if (round >= 0) seen[name].push(result);
    }
  }
  const rate = (name) => median(seen[name].map((r) => r.rate));
  const first = (name) => median(seen[name].map((r) => r.first));
  const pairs = seen.tapegrad.map((r, i) => r.rate / seen["llama-server"][i].rate);
  console.log(`${clients}`.padEnd(10), rate("llama-server").toFixed(0).padStart(32), rate("tapegrad").toFixed(0).padStart(10),
    `${median(pairs).toFixed(2)} (${Math.min(...pairs).toFixed(2)} to ${Math.max(...pairs).toFixed(2)})`.padStart(20),
    first("llama-server").toFixed(0).padStart(24), first("tapegrad").toFixed(0).padStart(10));
}
process.exit(0);
