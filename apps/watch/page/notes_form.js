// People's words about a run, name, tags and notes: shown in its card, and changed there.
import { el, setTags, setText } from "./dom.js";
import { language, t } from "./words.js";

export class NotesForm {
  /** kept() is called after the server has kept other notes. */
  constructor(run, kept) {
    this.run = run;
    this.kept = kept;
    this.language = language;
    this.tags = el("span", { class: "tags" });
    this.text = el("p", { class: "run-notes" });
    this.button = el("button", { type: "button", class: "edit", click: () => this.edit() }, t("edit"));
    this.place = el("div");
    this.element = el("div", { class: "about" }, this.tags, this.text, this.button, this.place);
  }

  show(editable) {
    const { tags, text } = this.run.notes;
    setTags(this.tags, tags);
    setText(this.text, text);
    this.text.hidden = text === "";
    this.button.hidden = !editable || this.isOpen;
  }

  get isOpen() {
    return this.place.hasChildNodes();
  }

  edit() {
    const { name, tags, text } = this.run.notes;
    const field = (word, input) => el("label", {}, el("span", {}, t(word)), input);
    this.name = el("input", { name: "name", value: name, maxlength: "100", placeholder: this.run.folderName });
    this.words = el("input", { name: "tags", value: tags.join(", ") });
    this.area = el("textarea", { name: "notes", rows: "3", maxlength: "4000" }, text);
    this.status = el("p", { class: "note", role: "status" });
    const form = el(
      "form",
      { class: "notes-form", submit: (event) => (event.preventDefault(), this.save()) },
      field("name", this.name),
      field("tagsField", this.words),
      field("notesField", this.area),
      el(
        "div",
        { class: "controls" },
        el("button", { class: "main" }, t("save")),
        el("button", { type: "button", click: () => this.close() }, t("cancel")),
        this.status,
      ),
    );
    this.place.replaceChildren(form);
    this.button.hidden = true;
    this.name.focus();
  }

  close() {
    this.place.replaceChildren();
    this.button.hidden = false;
    this.button.focus();
    if (this.language !== language) this.kept(); // which makes a new one
  }

  async save() {
    const tags = this.words.value.split(/[,，]/).map((tag) => tag.trim()).filter(Boolean);
    const notes = { name: this.name.value.trim(), tags, text: this.area.value };
    let why;
    try {
      const answer = await fetch(`api/runs/${this.run.id}/notes`, {
        method: "PUT",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(notes),
      });
      const told = await answer.json();
      if (answer.ok) {
        this.close();
        this.kept();
        return;
      }
      why = told.error ?? answer.status;
    } catch {
      why = t("noAnswer");
    }
    this.status.classList.add("error");
    setText(this.status, t("notSaved", why));
  }
}
