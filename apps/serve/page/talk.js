// The start of the page: conversations at the left, the talk, options at the right.
import { answer, models, Refused, setKey } from "./client.js";
import { begin, conversations, drop, keep, titleOf } from "./conversations.js";
import { el, kept } from "./dom.js";
import { factsOf, hideTip, messageView, showTip, TokenText } from "./message_view.js";
import { drawFields, samplingOptions, shades, system } from "./sampling.js";
import { fillWords, language, setLanguage, t } from "./talk_words.js";

const TOPS = 5; // alternatives of each token
const LOOK_AGAIN_MS = 3000;

const at = (id) => document.getElementById(id);
const root = document.documentElement;

let served = []; // the models, once the server has told of them
let current = null; // the conversation that is open
let writing = null; // the answer that is being written: {conversation, message, control}

const chats = () => served.find(({ id }) => id === at("models").value)?.meta.chat ?? true;

// The server.

function tell(state) {
  at("connection").dataset.state = state;
  at("connection").textContent = t(state);
}

async function look() {
  try {
    served = await models();
    tell("live");
    offer(served.map(({ id }) => id));
    draw();
  } catch (error) {
    tell("lost");
    if (error.status === 401) return askForKey();
  }
  if (served.length === 0) setTimeout(look, LOOK_AGAIN_MS);
}

/** The names of the models and of their adapters; a choice only if there are several. */
function offer(names) {
  const chosen = names.includes(kept.get("model")) ? kept.get("model") : (names[0] ?? "");
  at("model").textContent = names.length > 1 ? "" : chosen;
  at("models").replaceChildren(...names.map((name) => el("option", { value: name }, name)));
  at("models").value = chosen;
  at("models").hidden = names.length < 2;
}
at("models").addEventListener("change", () => {
  kept.set("model", at("models").value);
  draw();
});

function askForKey() {
  at("key-dialog").showModal();
}
at("key-dialog").addEventListener("close", () => {
  setKey(at("key").value.trim());
  look();
});

function tellProblem(text) {
  at("problem").hidden = !text;
  at("problem").textContent = text;
}

// The parts that are shown.

function draw() {
  fillWords();
  tell(at("connection").dataset.state);
  at("theme").textContent = t(isDark() ? "light" : "dark");
  at("send").textContent = t(chats() ? "send" : "goOn");
  at("input").placeholder = t(chats() ? "hint" : "hintText");
  drawFields(at("fields"), chats(), () => at("messages").toggleAttribute("data-shades", shades()));
  at("messages").toggleAttribute("data-shades", shades());
  drawList();
  drawMessages();
}

function drawList() {
  at("conversations").replaceChildren(
    ...conversations().map((conversation) => {
      const title = titleOf(conversation) || t("untitled");
      return el(
        "li",
        { "data-current": conversation === current },
        el("button", { type: "button", class: "open", "aria-current": conversation === current ? "true" : null, click: () => openConversation(conversation) }, title),
        el("button", { type: "button", class: "drop", "aria-label": t("dropConversation", title), click: () => dropConversation(conversation) }, "×"),
      );
    }),
  );
}

const whoIs = (message) => t(message.role === "assistant" ? "model" : chats() ? "you" : "text");

function drawMessages() {
  hideTip();
  const messages = current?.messages ?? [];
  if (messages.length === 0) {
    const kind = chats() ? "emptyChat" : "emptyText";
    at("messages").replaceChildren(el("p", { class: "empty" }, el("strong", {}, t(kind)), t(`${kind}More`)));
    return;
  }
  at("messages").replaceChildren(...messages.map(viewOf));
  scrollToEnd(true);
}

function viewOf(message) {
  if (writing?.message === message) return writing.view;
  const { messages } = current;
  const index = messages.indexOf(message);
  const isAnswer = message.role === "assistant";
  return messageView(message, whoIs(message), {
    edit: (text, again) => editMessage(message, text, again),
    regenerate: isAnswer && index > 0 ? () => writeAfter(index - 1) : null,
    remove: () => {
      const removed = messages.splice(index);
      if (removed.includes(writing?.message)) writing.control.abort();
      store();
      drawMessages();
    },
  });
}

function scrollToEnd(always) {
  const box = at("messages");
  if (always || box.scrollHeight - box.scrollTop - box.clientHeight < 120) box.scrollTop = box.scrollHeight;
}

// Conversations.

function store() {
  if (!keep()) tellProblem(t("full"));
  drawList();
}

function openConversation(conversation) {
  current = conversation;
  toggleMenu(false);
  tellProblem("");
  drawList();
  drawMessages();
  showButtons();
  at("input").focus();
}

function newConversation() {
  const empty = conversations().find((one) => one.messages.length === 0);
  openConversation(empty ?? begin());
}

function dropConversation(conversation) {
  if (writing?.conversation === conversation) writing.control.abort();
  drop(conversation);
  if (current === conversation) current = conversations()[0] ?? begin();
  store();
  drawMessages();
}

function editMessage(message, text, again) {
  if (text === message.text && !again) return drawMessages();
  message.text = text;
  delete message.tokens;
  store();
  if (again) return writeAfter(current.messages.indexOf(message));
  drawMessages();
}

// Answers.

function requestFor(messages) {
  if (!chats()) return { prompt: messages.map(({ text }) => text).join("") };
  const first = system().trim() ? [{ role: "system", content: system() }] : [];
  return { messages: [...first, ...messages.map(({ role, text }) => ({ role, content: text }))] };
}

/** Writes an answer behind message `index`, in place of what stood there. */
async function writeAfter(index) {
  if (writing) return;
  tellProblem("");
  const conversation = current;
  conversation.messages.splice(index + 1);
  const request = requestFor(conversation.messages);
  const message = { role: "assistant", text: "", tokens: [] };
  conversation.messages.push(message);
  const view = messageView(message, whoIs(message), {});
  view.toggleAttribute("data-writing", true);
  writing = { conversation, message, view, control: new AbortController() };
  drawMessages();
  drawList();
  showButtons();
  try {
    await write(message, view, request);
  } catch (error) {
    if (error.name === "AbortError") message.finish = "stopped";
    else tellRefusal(error);
  } finally {
    writing = null;
    const isLast = conversation.messages.at(-1) === message; // unless it was removed
    if (isLast && message.text === "" && !message.tokens?.length && message.finish !== "stop") conversation.messages.pop();
    store();
    if (current === conversation) drawMessages();
    showButtons();
  }
}

function tellRefusal(error) {
  if (!(error instanceof Refused)) throw error;
  tellProblem(error.status === 0 ? t("ended") : error.message);
  if (error.status === 401) askForKey();
  if (error.status === 0) {
    served = [];
    tell("lost");
    setTimeout(look, LOOK_AGAIN_MS);
  }
}

async function write(message, view, request) {
  const text = new TokenText(view.querySelector(".text"));
  const options = { ...samplingOptions(), model: at("models").value };
  let begun = 0;
  for await (const piece of answer({ ...request, options, tops: TOPS, signal: writing.control.signal })) {
    const now = performance.now();
    message.text += piece.text;
    message.seed = piece.seed;
    message.finish = piece.finish ?? message.finish;
    if (piece.tokens.length === 0) continue;
    message.tokens.push(...piece.tokens);
    message.count = message.tokens.length;
    text.add(piece.tokens);
    if (!begun) begun = now;
    else message.rate = (1000 * (message.count - 1)) / (now - begun);
    view.querySelector(".facts").textContent = factsOf(message);
    scrollToEnd(false);
  }
}

function showButtons() {
  at("send").hidden = writing !== null;
  at("stop").hidden = writing === null;
}

function send() {
  const text = at("input").value;
  if (writing || (text.trim() === "" && (chats() || current.messages.length === 0))) return;
  if (text !== "") current.messages.push({ role: "user", text });
  at("input").value = "";
  fit();
  writeAfter(current.messages.length - 1);
}

// The actions of people.

function fit() {
  at("input").style.height = "auto";
  at("input").style.height = `${at("input").scrollHeight}px`;
}

at("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
at("input").addEventListener("input", fit);
at("input").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
at("stop").addEventListener("click", () => writing?.control.abort());
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  hideTip();
  toggleMenu(false);
  writing?.control.abort();
});
at("new").addEventListener("click", newConversation);

at("messages").addEventListener("pointerover", (event) => {
  const span = event.target.closest(".token");
  span ? showTip(span) : hideTip();
});
at("messages").addEventListener("pointerleave", hideTip);
at("messages").addEventListener("scroll", hideTip);
at("messages").addEventListener("focusout", hideTip);

function toggleMenu(open) {
  at("side").toggleAttribute("data-open", open);
  at("menu").setAttribute("aria-expanded", String(open));
}
at("menu").addEventListener("click", () => toggleMenu(!at("side").hasAttribute("data-open")));

const isDark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
at("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  kept.set("theme", root.dataset.theme);
  at("theme").textContent = t(isDark() ? "light" : "dark");
});
at("language").addEventListener("click", () => {
  setLanguage(language === "zh" ? "en" : "zh");
  draw();
});

if (["light", "dark"].includes(kept.get("theme"))) root.dataset.theme = kept.get("theme");
if (matchMedia("(max-width: 1100px)").matches) at("options").querySelector("details").open = false;
current = conversations()[0] ?? begin();
draw();
at("input").focus();
look();
