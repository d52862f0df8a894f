// Opens an exported folder with onnxruntime-node and with transformers.js, and compares it with what the model answered here
// (model_answers).
// usage: onnx_client.mjs FOLDER ANSWERS [TOLERANCE]        onnx.sh calls it
// Logits of all positions must be those of ANSWERS.safetensors, of one call and of three with a past; so must those of a row with
// padding before it. The greedy text of transformers.js must be that of ANSWERS.jsonl, up to a token where two are as likely.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { createRequire } from "node:module";
import { load } from "./safetensors.mjs";
const require = createRequire(process.env.TAPEGRAD_NODE_MODULES ? join(process.env.TAPEGRAD_NODE_MODULES, "x") : import.meta.url);
const ort = require("onnxruntime-node");
const { AutoModelForCausalLM, AutoTokenizer, Tensor, env } = require("@huggingface/transformers");

const folder = resolve(process.argv[2]);
const [answers, tolerance] = [process.argv[3], Number(process.argv[4] ?? 1e-4)];

const expected = load(`${answers}.safetensors`);
const file = join(folder, "onnx", readdirSync(join(folder, "onnx")).find((name) => name.endsWith(".onnx")));
const session = await ort.InferenceSession.create(file);
const caches = session.inputNames.filter((name) => name.startsWith("past_key_values."));
const shapes = Object.fromEntries(session.inputMetadata.map((input) => [input.name, input.shape]));
const whole = (rows) =>
  new ort.Tensor("int64", BigInt64Array.from(rows.flat(), (x) => BigInt(x)), [rows.length, rows[0].length]);

// The logits of rows of tokens that follow a past. `mask` is that of the past and the rows.
async function call(rows, mask, positions, past) {
  const feeds = { input_ids: whole(rows), attention_mask: whole(mask), position_ids: whole(positions) };
  for (const name of caches) {
    const [, heads, , size] = shapes[name];
    feeds[name] = past?.[name.replace("past_key_values", "present")] ?? new ort.Tensor("float32", new Float32Array(0), [rows.length, heads, 0, size]);
  }
  return session.run(feeds);
}

const [B, T] = expected.input_ids.shape, V = expected.logits.shape[2];
const tokens = Array.from({ length: B }, (_, b) => Array.from(expected.input_ids.data.subarray(b * T, (b + 1) * T)));
const range = (from, to) => Array.from({ length: to - from }, (_, i) => from + i);
const ones = (n) => Array(n).fill(1);

let largest = 0;
// Ruled out at all positions, and not all tokens are.
let outside;
const ruledOut = (v) => outside.has(v);
function compare(logits, row, first, count, from = 0) {
  for (let t = 0; t < count; ++t) {
    for (let v = 0; v < V; ++v) {
      const ours = expected.logits.data[(row * T + first + t) * V + v];
      const theirs = logits.data[(from + t) * V + v];
      assert.ok(!Number.isNaN(theirs), "a logit is not a number");
      if (theirs === -Infinity && ruledOut(v)) continue; // a row of the head that stands for no token
      if (ours !== theirs) largest = Math.max(largest, Math.abs(ours - theirs));
    }
  }
}

const at_once = await call(tokens, tokens.map(() => ones(T)), tokens.map(() => range(0, T)));
assert.equal(at_once.logits.data.length, B * T * V);
outside = new Set(range(0, V).filter((v) => range(0, B * T).every((t) => at_once.logits.data[t * V + v] === -Infinity)));
assert.ok(outside.size < V, "no token is left");
for (let b = 0; b < B; ++b) compare(at_once.logits, b, 0, T, b * T);

let past;
const cuts = [0, T >> 1, T - 1, T];
for (let i = 0; i < 3; ++i) {
  const [from, to] = [cuts[i], cuts[i + 1]];
  past = await call(tokens.map((row) => row.slice(from, to)), tokens.map(() => ones(to)), tokens.map(() => range(from, to)), past);
  for (let b = 0; b < B; ++b) compare(past.logits, b, from, to - from, b * (to - from));
}

// A shorter row beside a longer one: padding stands before it.
const pad = 3;
const rows = [tokens[0], [...Array(pad).fill(0), ...tokens[1].slice(0, T - pad)]];
const masks = [ones(T), [...Array(pad).fill(0), ...ones(T - pad)]];
const padded = await call(rows, masks, [range(0, T), [...Array(pad).fill(1), ...range(0, T - pad)]]);
compare(padded.logits, 0, 0, T);
compare(padded.logits, 1, 0, T - pad, T + pad);

// transformers.js, without its hub.
env.allowRemoteModels = false;
env.localModelPath = dirname(folder);
const model = await AutoModelForCausalLM.from_pretrained(basename(folder));
const tokenizer = await AutoTokenizer.from_pretrained(basename(folder));
const prompt = Array.from(expected.prompt.data, BigInt);
const made = await model.generate({
  inputs: new Tensor("int64", prompt, [1, prompt.length]),
  attention_mask: new Tensor("int64", prompt.map(() => 1n), [1, prompt.length]),
  max_new_tokens: expected.greedy.data.length,
  do_sample: false,
  eos_token_id: [],
});
const greedy = Array.from(made.data.slice(prompt.length), Number);
const ours = Array.from(expected.greedy.data);
const first = greedy.findIndex((token, i) => token !== ours[i]);
const text = JSON.parse(readFileSync(`${answers}.jsonl`, "utf8").split("\n")[0]).greedy_text;
let words = "greedy tokens and text equal";
let failed = !(largest <= tolerance);
if (first >= 0) {
  // Rounding decides between two tokens that are as likely.
  const before = [...Array.from(expected.prompt.data), ...ours.slice(0, first)], n = before.length;
  const { logits } = await call([before], [ones(n)], [range(0, n)]);
  const margin = logits.data[(n - 1) * V + greedy[first]] - logits.data[(n - 1) * V + ours[first]];
  words = `greedy tokens equal up to ${first}, where two differ by ${margin.toExponential(1)}`;
  failed ||= !(margin <= tolerance);
} else if (tokenizer.decode(greedy, { skip_special_tokens: false, clean_up_tokenization_spaces: false }) !== text) {
  words = "greedy text DIFFERS";
  failed = true;
}
console.log(`${basename(folder)}: logits differ by at most ${largest.toExponential(1)}; ${words}`);
process.exitCode = failed ? 1 : 0;
