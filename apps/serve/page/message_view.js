// One message: its text, for answers token by token, and what can be done with it.
import { el } from "./dom.js";
import { percent, t } from "./talk_words.js";

/** How unlikely a token was: 0 to 4. */
const shade = (logprob) => [0.5, 0.2, 0.05, 0.01].filter((limit) => Math.exp(logprob) < limit).length;

const shown = (token) => token.replaceAll("\n", "↵").replaceAll(" ", "␣").replaceAll("\t", "⇥");

/** Appends the tokens of an answer as elements. A token that ends within a character joins the next one's. */
export class TokenText {
  constructor(element) {
    this.element = element;
    this.decoder = new TextDecoder();
    this.pending = [];
  }
  add(tokens) {
    for (const token of tokens) {
      this.pending.push(token);
      const text = this.decoder.decode(new Uint8Array(token.bytes), { stream: true });
      if (!text) continue;
      const span = el("span", { class: "token", "data-shade": String(Math.max(...this.pending.map((p) => shade(p.logprob)))) }, text);
      span.tokens = this.pending;
      this.pending = [];
      this.element.append(span);
    }
  }
}

export function factsOf(message) {
  const facts = [];
  if (message.count) {
    facts.push(t(message.rate ? "facts" : "factsOfOne", message.count, message.rate?.toFixed(1), message.seed));
  }
  if (message.finish === "length") facts.push(t("cut"));
  if (message.finish === "stopped") facts.push(t("stopped"));
  return facts.join(" · ");
}

/** The element of a message. `actions`: {edit(text, again), regenerate, remove}, those that there are. */
export function messageView(message, who, actions) {
  const text = el("div", { class: "text" });
  const facts = el("span", { class: "facts" }, factsOf(message));
  const foot = el("div", { class: "foot" });
  const element = el("article", { class: "message", "data-role": message.role }, el("p", { class: "who" }, who), text, foot);
  const button = (word, click) => el("button", { type: "button", class: "quiet", "data-action": word, click }, t(word));
  const copy = button("copy", async () => {
    await navigator.clipboard?.writeText(message.text);
    copy.textContent = t("copied");
  });
  foot.append(copy);
  if (actions.edit) foot.append(button("edit", () => editIn(element, message, actions)));
  if (actions.regenerate) foot.append(button("regenerate", actions.regenerate));
  if (actions.remove) foot.append(button("remove", actions.remove));
  foot.append(facts);
  if (message.role === "assistant") {
    text.tabIndex = 0;
    text.addEventListener("keydown", (event) => walk(event, text));
  }
  if (message.tokens?.length) new TokenText(text).add(message.tokens);
  else text.textContent = message.text;
  return element;
}

function editIn(element, message, actions) {
  const field = el("textarea", { "aria-label": t("edit") });
  field.value = message.text;
  const close = () => form.replaceWith(...before);
  const before = [element.querySelector(".text"), element.querySelector(".foot")];
  const save = (again) => (close(), actions.edit(field.value, again));
  const again = message.role === "user";
  const form = el(
    "form",
    { submit: (event) => (event.preventDefault(), save(again)), keydown: (event) => event.key === "Escape" && close() },
    field,
    el(
      "div",
      { class: "edits" },
      el("button", { type: "submit", class: "main" }, t(again ? "saveAndSend" : "save")),
      el("button", { type: "button", click: close }, t("cancel")),
    ),
  );
  before[0].replaceWith(form);
  before[1].remove();
  field.focus();
}

// The probabilities of the token under the pointer, or of the one that arrow keys chose.

const tip = () => document.getElementById("tip");

export function hideTip() {
  tip().hidden = true;
  document.querySelector(".token[data-at]")?.removeAttribute("data-at");
}

export function showTip(span) {
  hideTip();
  span.setAttribute("data-at", "");
  const { token, logprob, top_logprobs: top } = span.tokens[span.tokens.length - 1];
  const rows = top.some((other) => other.token === token) ? top : [...top, { token, logprob }];
  const table = el("table", {}, ...rows.map((row) =>
    el(
      "tr",
      { "data-chosen": row.token === token },
      el("td", {}, shown(row.token)),
      el("td", {}, el("progress", { max: "1", value: String(Math.exp(row.logprob)), "aria-label": percent(row.logprob) })),
      el("td", {}, percent(row.logprob)),
    ),
  ));
  tip().replaceChildren(table);
  tip().hidden = false;
  const box = span.getClientRects()[0] ?? span.getBoundingClientRect();
  const size = tip().getBoundingClientRect();
  const left = Math.min(Math.max(8, box.left), innerWidth - size.width - 8);
  const above = box.top - size.height - 6;
  tip().style.left = `${left}px`;
  tip().style.top = `${above < 8 ? box.bottom + 6 : above}px`;
  return t("probability", shown(token), percent(logprob));
}

function walk(event, text) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const tokens = [...text.querySelectorAll(".token")];
  if (!step || tokens.length === 0) return;
  event.preventDefault();
  const at = tokens.findIndex((token) => token.hasAttribute("data-at"));
  const next = tokens[Math.min(Math.max(at < 0 ? (step > 0 ? 0 : tokens.length - 1) : at + step, 0), tokens.length - 1)];
  next.scrollIntoView({ block: "nearest" });
  document.getElementById("said").textContent = showTip(next);
}
