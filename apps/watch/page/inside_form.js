// The form for the view inside the model: which run, which text, and what the server says to it.
import { renderInside } from "./inside.js";
import { el, setText } from "./dom.js";
import { choices } from "./layers.js";
import { language, t } from "./words.js";

const MOST_BYTES = 4096;
const EXAMPLE_LENGTH = 120;

export class InsideForm {
  constructor(parent) {
    this.run = el("select", { id: "inside-run", change: () => this.suggest() });
    this.text = el("textarea", { id: "inside-text", rows: "3", spellcheck: "false", input: () => (this.typed = true) });
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.form.requestSubmit();
    });
    this.runLabel = el("label", { for: "inside-run" });
    this.textLabel = el("label", { for: "inside-text" });
    this.button = el("button", { class: "main" });
    this.talkButton = el("button", { type: "button", id: "talk", click: () => this.talk() });
    this.status = el("p", { class: "note", role: "status" });
    this.form = el(
      "form",
      { submit: (event) => (event.preventDefault(), this.ask()) },
      el("div", { class: "field" }, this.textLabel, this.text),
      el("div", { class: "controls" }, this.runLabel, this.run, this.button, this.talkButton, this.status),
    );
    this.result = el("div", { id: "inside-result" });
    parent.append(this.form, this.result);
    this.words();
  }

  /** After a change of language. */
  words() {
    setText(this.runLabel, t("run"));
    setText(this.textLabel, t("text"));
    setText(this.button, t("look"));
    setText(this.talkButton, t("talk"));
    if (this.data) renderInside(this.result, this.data, language);
    else setText(this.status, "");
  }

  show({ list, inspect, talk }) {
    this.runs = list;
    const keys = list.map(({ key, name }) => [key, name]);
    const chosen = list.find(({ key }) => key === this.run.value) ?? list[0];
    choices(this.run, keys, chosen?.key ?? "");
    const one = list.length < 2;
    this.run.hidden = this.runLabel.hidden = one;
    this.button.disabled = !inspect || list.length === 0 || this.busy;
    this.talkButton.disabled = list.length === 0 || this.busy;
    this.talkButton.hidden = !talk;
    if (!inspect && list.length > 0) setText(this.status, t("noInspect"));
    else if (this.status.textContent === t("noInspect")) setText(this.status, "");
    this.suggest();
  }

  /** Until the reader types, the text is the beginning of the run's last sample. */
  suggest() {
    if (this.typed) return;
    const run = this.runs.find(({ key }) => key === this.run.value);
    const sample = run?.samples[run.samples.length - 1]?.text.trim();
    const text = sample ? sample.slice(0, EXAMPLE_LENGTH).replace(/\s\S*$/, "") : "Once upon a time";
    if (document.activeElement !== this.text && this.text.value !== text) this.text.value = text;
  }

  async ask() {
    const run = this.runs.find(({ key }) => key === this.run.value);
    const text = this.text.value;
    if (!run || this.busy) return;
    if (text === "") return this.say("emptyText");
    if (new TextEncoder().encode(text).length > MOST_BYTES) return this.say("tooLong");
    this.typed = true;
    const data = await this.post("api/inspect", { run: run.id, text }, "looking");
    if (!data) return;
    this.data = data;
    renderInside(this.result, data, language);
  }

  /** Opens a page to talk to the newest checkpoint, in a tab that has to be there before the answer. */
  async talk() {
    const run = this.runs.find(({ key }) => key === this.run.value);
    if (!run || this.busy) return;
    const tab = window.open("", "_blank");
    const data = await this.post("api/talk", { run: run.id }, "opening");
    if (!data) return tab?.close();
    setText(this.status, t("opened", data.port));
    (tab ?? window).location = `http://127.0.0.1:${data.port}/`;
  }

  /** The server's answer; nothing if that is an error, which the page shows. */
  async post(path, body, waiting) {
    this.wait(true, waiting);
    try {
      const answer = await fetch(path, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
      });
      const data = await answer.json();
      this.wait(false);
      if (!answer.ok || data.error) return this.say("refused", data.error ?? answer.status);
      setText(this.status, "");
      return data;
    } catch {
      this.wait(false);
      return this.say("noAnswer");
    }
  }

  say(key, ...values) {
    this.status.classList.add("error");
    setText(this.status, t(key, ...values));
  }

  wait(busy, waiting) {
    this.busy = this.button.disabled = this.talkButton.disabled = busy;
    this.status.classList.remove("error");
    this.form.setAttribute("aria-busy", String(busy));
    clearInterval(this.timer);
    if (!busy) return;
    const begin = Date.now();
    const tell = () => setText(this.status, t(waiting, Math.round((Date.now() - begin) / 1000)));
    tell();
    this.timer = setInterval(tell, 1000);
  }
}
