// Reads lines {"schema": …, "text": …} from stdin. Each text must be JSON that fits its schema.
import { createInterface } from "node:readline";
import Ajv from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

let count = 0, wrong = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const { schema, text } = JSON.parse(line);
  const ajv = new Ajv({ strict: false, allErrors: true });
  addFormats(ajv);
  ++count;
  let why = "";
  try {
    const validate = ajv.compile(schema);
    if (!validate(JSON.parse(text))) why = ajv.errorsText(validate.errors);
  } catch (error) {
    why = error.message;
  }
  if (why === "") continue;
  ++wrong;
  console.error(`${why}\n  schema: ${JSON.stringify(schema)}\n  text:   ${text}`);
}
const expected = Number(process.argv[2] ?? 1);
console.log(`${count} texts, ${wrong} of them wrong`);
process.exit(wrong === 0 && count >= expected ? 0 : 1);
