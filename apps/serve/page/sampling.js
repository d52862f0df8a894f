// How answers are drawn: the fields of the options, kept in this browser.
import { el, kept } from "./dom.js";
import { t } from "./talk_words.js";

const FIELDS = {
  temperature: { value: 0.8, min: 0, max: 2, step: 0.05 },
  top_p: { value: 1, min: 0.01, max: 1, step: 0.01 },
  top_k: { value: 200, min: 0, max: 1000000, step: 1 },
  min_p: { value: 0, min: 0, max: 1, step: 0.01 },
  repetition_penalty: { value: 1, min: 0.1, max: 10, step: 0.05 },
  max_tokens: { value: "", min: 1, max: 1000000, step: 1 },
  seed: { value: "", min: 0, max: 4294967295, step: 1 },
};

let values = {};
try {
  values = JSON.parse(kept.get("sampling") ?? "{}") ?? {};
} catch {
  // Values that another version has written.
}
const keep = () => kept.set("sampling", JSON.stringify(values));
const valueOf = (name) => values[name] ?? FIELDS[name].value;

export const system = () => values.system ?? "";
export const shades = () => values.shades === true;

/** The members of a request. */
export function samplingOptions() {
  const options = {};
  for (const name of Object.keys(FIELDS)) {
    const value = valueOf(name);
    if (value !== "" && Number.isFinite(Number(value))) options[name] = Number(value);
  }
  return options;
}

/** Draws the fields. `changed` is called when what is shown of answers changes. */
export function drawFields(parent, chats, changed) {
  const set = (name, value) => {
    values[name] = value;
    keep();
  };
  const field = (name, input, help = true) =>
    el("div", { class: "field" }, el("label", { for: `field-${name}` }, t(name)), input, help ? el("small", { id: `help-${name}` }, t(`${name}Help`)) : null);
  const fields = [];
  if (chats) {
    const text = el("textarea", { id: "field-system", rows: "3", "aria-describedby": "help-system", input: () => set("system", text.value) });
    text.value = system();
    fields.push(field("system", text));
  }
  for (const [name, { min, max, step }] of Object.entries(FIELDS)) {
    const input = el("input", {
      id: `field-${name}`, type: "number", min: String(min), max: String(max), step: String(step), inputmode: "decimal",
      "aria-describedby": `help-${name}`, input: () => input.validity.valid && set(name, input.value),
    });
    input.value = valueOf(name);
    fields.push(field(name, input));
  }
  const box = el("input", { id: "field-shades", type: "checkbox", change: () => (set("shades", box.checked), changed()) });
  box.checked = shades();
  fields.push(field("shades", box, false));
  const reset = () => {
    values = { system: values.system, shades: values.shades };
    keep();
    drawFields(parent, chats, changed);
  };
  fields.push(el("button", { type: "button", click: reset }, t("reset")));
  parent.replaceChildren(...fields);
}
