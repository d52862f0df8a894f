// The engine of pages in WebAssembly opens changed model files: each is refused in words, or is a model that works. A trap, such as an access
// beyond the memory, would leave the page dead. Skipped where scripts/web.sh was not run.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const SEED = 1, TRIES = 2000, DEADLINE_MS = 600_000;
const engineFile = path.join(process.env.TAPEGRAD_BUILD, "web/engine.js");
const LENGTH = 8; // bytes of the header's length

/** Draws whole numbers below n, the same for a seed each time (mulberry32). */
function drawsOf(seed) {
  let state = seed;
  return (n) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * n);
  };
}

function withWrongBytes(bytes, draw) {
  const at = draw(bytes.length), other = Buffer.from(bytes);
  switch (draw(4)) {
    case 0: other[at] = draw(256); return other;
    case 1: other[at] ^= 1 << draw(8); return other;
    case 2: return Buffer.concat([other.subarray(0, at), other.subarray(at + 1 + draw(16))]);
    default: return other.subarray(0, at);
  }
}

/** Changes bytes anywhere, or of the header alone, whose length is then right. */
function changed(bytes, draw) {
  if (draw(3) === 0) return withWrongBytes(bytes, draw);
  const end = LENGTH + Number(bytes.readBigUInt64LE());
  const header = withWrongBytes(bytes.subarray(LENGTH, end), draw), length = Buffer.alloc(LENGTH);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, header, bytes.subarray(end)]);
}

/** In a process of its own, which can be ended: tries them all, and prints how many were refused. */
async function tryAll(modelFile) {
  const engine = await createRequire(import.meta.url)(engineFile)();
  const bytes = fs.readFileSync(modelFile), draw = drawsOf(SEED);
  let i = 0, refused = 0;
  const ask = (request) => {
    const place = engine.allocateUTF8(JSON.stringify(request));
    const answer = JSON.parse(engine.UTF8ToString(engine._tapegrad_answer(place)));
    engine._free(place);
    if ("error" in answer) assert.doesNotMatch(answer.error || "no words", /^no words$|std::|json\.exception|vector::|basic_string/, `try ${i}`);
    return answer;
  };
  for (; i < TRIES; ++i) {
    fs.writeSync(2, `try ${i}\n`); // of a hang or a trap, the last one says where
    engine.FS.writeFile("/model", changed(bytes, draw));
    if ("error" in ask({ open: "/model" })) {
      ++refused;
      continue;
    }
    const begun = ask({ do: "begin", prompt: "", max_new_tokens: 2, greedy: true, temperature: 1, top_k: 0, seed: 1 });
    if (!("error" in begun)) ask({ do: "next" });
    ask({ do: "look", text: "the" });
  }
  engine.FS.writeFile("/model", bytes);
  assert.ok(ask({ open: "/model" }).parameters > 0); // the engine has survived
  console.log(refused);
}

if (process.argv[2] === "--try") {
  await tryAll(process.argv[3]);
} else {
  const skip = fs.existsSync(engineFile) ? false : "there is no em++ to make the page by";
  test("a changed model file is refused in words, or works", { skip }, async () => {
    const h = await import("./helper.mjs");
    const folder = h.temporaryFolder(), run = path.join(folder, "run");
    await h.train(run, "--max-iters 2");
    const made = spawnSync(h.program("tapegrad"), ["export", run, "--format", "web", "-o", path.join(folder, "page")], { encoding: "utf8" });
    assert.equal(made.status, 0, made.stderr);
    const words = [fileURLToPath(import.meta.url), "--try", path.join(folder, "page/model.safetensors")];
    const tried = spawnSync(process.execPath, words, { encoding: "utf8", timeout: DEADLINE_MS });
    assert.equal(tried.status, 0, `${tried.error ?? ""} ${tried.stderr.slice(-2000)}`);
    const refused = Number(tried.stdout);
    assert.ok(refused > 0 && refused < TRIES, `${refused} were refused`);
  });
}
