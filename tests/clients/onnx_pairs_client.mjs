// Opens the export of an encoder–decoder with onnxruntime-node and with transformers.js, and compares it with what the model
// answered here (model_answers).
// usage: onnx_pairs_client.mjs FOLDER ANSWERS [TOLERANCE]        onnx.sh calls it
// Logits of all positions must be those of ANSWERS.safetensors, of one call and of three with a past, where a source has padding.
// Ids, greedy tokens and greedy text of transformers.js must be those of ANSWERS.jsonl.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { createRequire } from "node:module";
import { load } from "./safetensors.mjs";
const require = createRequire(process.env.TAPEGRAD_NODE_MODULES ? join(process.env.TAPEGRAD_NODE_MODULES, "x") : import.meta.url);
const ort = require("onnxruntime-node");
const { AutoModelForSeq2SeqLM, AutoTokenizer, env, pipeline } = require("@huggingface/transformers");

const folder = resolve(process.argv[2]);
const [answers, tolerance] = [process.argv[3], Number(process.argv[4] ?? 1e-4)];
const expected = load(`${answers}.safetensors`);
const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8"));

const session = (half) => {
  const name = readdirSync(join(folder, "onnx")).find((file) => file.startsWith(half) && file.endsWith(".onnx"));
  return ort.InferenceSession.create(join(folder, "onnx", name));
};
const whole = (rows) =>
  new ort.Tensor("int64", BigInt64Array.from(rows.flat(), (x) => BigInt(x)), [rows.length, rows[0].length]);
const rows_of = ({ shape: [B, T], data }) => Array.from({ length: B }, (_, b) => Array.from(data.subarray(b * T, (b + 1) * T)));

const encoder = await session("encoder_model"), decoder = await session("decoder_model_merged");
const sources = rows_of(expected.sources), targets = rows_of(expected.targets);
const mask = whole(sources.map((row) => row.map((id) => (id === config.pad_token_id ? 0 : 1))));
const { last_hidden_state } = await encoder.run({ input_ids: whole(sources), attention_mask: mask });

const H = config.decoder_attention_heads, D = config.d_model / H;
async function call(rows, past) {
  const feeds = { input_ids: whole(rows), encoder_hidden_states: last_hidden_state, encoder_attention_mask: mask };
  for (const name of decoder.inputNames.filter((input) => input.startsWith("past_key_values."))) {
    feeds[name] = past?.[name.replace("past_key_values", "present")] ?? new ort.Tensor("float32", new Float32Array(0), [rows.length, H, 0, D]);
  }
  return decoder.run(feeds);
}

const [B, T, V] = expected.logits.shape;
let largest = 0;
function compare(logits, first, count) {
  for (let b = 0; b < B; ++b) {
    for (let i = 0; i < count * V; ++i) {
      const theirs = logits.data[b * count * V + i];
      assert.ok(!Number.isNaN(theirs), "a logit is not a number");
      largest = Math.max(largest, Math.abs(theirs - expected.logits.data[(b * T + first) * V + i]));
    }
  }
}
compare((await call(targets)).logits, 0, T);
let past;
const cuts = [0, T >> 1, T - 1, T];
for (let i = 0; i < 3; ++i) {
  past = await call(targets.map((row) => row.slice(cuts[i], cuts[i + 1])), past);
  compare(past.logits, cuts[i], cuts[i + 1] - cuts[i]);
}
let failed = !(largest <= tolerance);

// transformers.js, without its hub.
env.allowRemoteModels = false;
env.localModelPath = dirname(folder);
const tokenizer = await AutoTokenizer.from_pretrained(basename(folder));
const model = await AutoModelForSeq2SeqLM.from_pretrained(basename(folder));
const translate = await pipeline("text2text-generation", basename(folder));
const texts = readFileSync(`${answers}.jsonl`, "utf8").trim().split("\n").map((line) => JSON.parse(line));
let equal = 0;
for (const { source, ids, greedy, greedy_text } of texts) {
  const inputs = tokenizer(source);
  assert.deepEqual(Array.from(inputs.input_ids.data, Number), ids, `ids of '${source}'`);
  const made = Array.from((await model.generate(inputs)).tolist()[0], Number).slice(1);
  if (made.at(-1) === config.eos_token_id) made.pop();
  const [{ generated_text }] = await translate(source, { max_new_tokens: config.max_position_embeddings });
  const same = JSON.stringify(made) === JSON.stringify(greedy) && generated_text.replaceAll("\n", " ") === greedy_text;
  if (same) ++equal;
  else console.log(`'${source}': ${made} and '${generated_text}' there, ${greedy} and '${greedy_text}' here`);
}
if (tolerance < 1e-3) failed ||= equal !== texts.length; // rounded matrices may choose other tokens
console.log(`${basename(folder)}: logits differ by at most ${largest.toExponential(1)}; ${equal} of ${texts.length} greedy texts equal`);
process.exitCode = failed ? 1 : 0;
