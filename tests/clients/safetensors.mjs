import { readFileSync } from "node:fs";

// The tensors of a file of safetensors, as plain arrays of numbers.
export function load(path) {
  const bytes = readFileSync(path);
  const size = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + size).toString());
  const tensors = {};
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const data = new Uint8Array(bytes.subarray(8 + size + entry.data_offsets[0], 8 + size + entry.data_offsets[1])).buffer;
    tensors[name] = { shape: entry.shape, data: entry.dtype === "F32" ? new Float32Array(data) : new Int32Array(data) };
  }
  return tensors;
}
