// Conversations, which stay in this browser: what was said, newest first. Tokens and their probabilities are
// kept while the page is open.
import { kept } from "./dom.js";

const NAME = "conversations";
const MOST = 200;

let list = [];
try {
  const read = JSON.parse(kept.get(NAME) ?? "[]");
  if (Array.isArray(read)) list = read.filter((one) => Array.isArray(one?.messages));
} catch {
  // Conversations that another version has written, or somebody else.
}

export const conversations = () => list;

export function begin() {
  const conversation = { id: crypto.randomUUID?.() ?? String(Date.now()), messages: [] };
  list.unshift(conversation);
  list.length = Math.min(list.length, MOST);
  return conversation;
}

export function drop(conversation) {
  list = list.filter((one) => one !== conversation);
}

export const titleOf = (conversation) => conversation.messages[0]?.text.trim().split("\n")[0].slice(0, 80) ?? "";

/** False if the browser had no room for all of them: the oldest are then not kept. */
export function keep() {
  const plain = list
    .filter((one) => one.messages.length > 0)
    .map(({ id, messages }) => ({ id, messages: messages.map(({ tokens, ...rest }) => rest) }));
  for (let count = plain.length; ; count = Math.floor(count / 2)) {
    const text = JSON.stringify(plain.slice(0, count));
    kept.set(NAME, text);
    if (kept.get(NAME) === text) return count === plain.length;
    if (count === 0) return false;
  }
}
