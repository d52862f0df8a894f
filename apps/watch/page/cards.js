// A card for each run that is open: its numbers of now, and where it came from. Elements are kept and only their texts
// change, so that focus and selection stay.
import { variableOf } from "./colors.js";
import { el, inShell, setText, table } from "./dom.js";
import { NotesForm } from "./notes_form.js";
import { flatOptions } from "./options.js";
import { count, dateTime, duration, endWords, language, named, number, t } from "./words.js";

const NUMBERS = ["loss", "val_loss", "bits_per_byte", "norm", "lr", "tokens_per_second"];

const OF_END = ["tells_end", "ended", "ended_at", "last_step", "why"]; // of a session: how it ended

export class Cards {
  /** changed() is called after a card was closed, kept() after the server has kept notes. */
  constructor(parent, changed, kept) {
    this.parent = parent;
    this.changed = changed;
    this.kept = kept;
    this.cards = new Map();
  }

  /** After a change of the list or the language. */
  rebuild(all) {
    const focused = document.activeElement;
    const runs = all.filter(({ open }) => open);
    this.cards = new Map(runs.map((run) => [run.key, this.renew(run, this.cards.get(run.key))]));
    const elements = [...this.cards.values()].map(({ element }) => element);
    const { children } = this.parent;
    if (children.length !== elements.length || elements.some((element, i) => element !== children[i])) {
      this.parent.replaceChildren(...elements);
      if (this.parent.contains(focused)) focused.focus();
    }
  }

  /** A run's card: the one that is there, with what is new of the run. */
  renew(run, card) {
    const look = JSON.stringify([language, run.name, run.color]);
    // A text that somebody is writing stays, in whatever language the form is.
    const keeps = card && (card.notes.language === language || card.notes.isOpen);
    if (card?.look !== look || !keeps) {
      const notes = keeps ? card.notes : new NotesForm(run, this.kept);
      card = { ...this.build(run, card?.details.open ?? false, notes), look, notes };
    }
    const from = JSON.stringify([run.id, run.folder, run.sessions, run.options, run.state]);
    if (card.from !== from) {
      card.from = from;
      const list = origin(run);
      card.origin.replaceWith(list);
      card.origin = list;
    }
    return card;
  }

  build(run, open, notes) {
    const swatch = el("i", { class: "swatch" });
    swatch.style.background = `var(${variableOf(run)})`;
    const title = el("h3", { class: "run-name" }, swatch, el("span", {}, run.name));
    const close = el("button", { type: "button", "aria-label": t("close", run.name), click: () => ((run.open = false), this.changed()) }, "×");
    const state = el("span", { class: "state" });
    const bar = el("div", { class: "progress", role: "progressbar", "aria-label": t("progress", run.name) }, el("i"));
    bar.firstChild.style.background = `var(${variableOf(run)})`;
    const values = {};
    const cell = (name) => el("div", {}, el("dt", {}, t(name)), (values[name] = el("dd", { "data-value": name })));
    const reason = el("p", { class: "reason" });
    const list = el("dl", {}, ...["step", "left", ...NUMBERS, "skipped"].map(cell));
    const from = el("div");
    const details = el("details", { open }, el("summary", {}, t("details")), from);
    const element = el("article", { class: "run" }, el("header", {}, title, state, close), reason, notes.element, bar, list, details);
    return { element, state, reason, bar, values, details, origin: from };
  }

  /** The numbers of now. A server that is gone leaves no run `training`: nobody knows. */
  show(runs, connection, editable) {
    const lost = connection === "lost";
    for (const run of runs) {
      const card = this.cards.get(run.key);
      if (!card) continue;
      const { state, reason, bar, values } = card;
      card.notes.show(editable);
      state.dataset.state = lost && run.state === "training" ? "unknown" : run.state;
      setText(state, t(state.dataset.state));
      setText(reason, endWords(run.reason));
      reason.hidden = run.reason === "";
      const done = run.maxIters ? Math.min(100, (100 * run.step) / run.maxIters) : 0;
      bar.setAttribute("aria-valuenow", Math.round(done));
      bar.firstChild.style.width = `${done}%`;
      fill(values.step, run.ready ? count(run.step) : "…");
      const all = run.maxIters ? ` ${t("stepOf", count(run.maxIters))}` : "";
      setText(values.step.previousSibling, t("step") + all);
      const left = lost ? null : run.secondsLeft;
      fill(values.left, left === null ? "" : duration(left));
      for (const name of NUMBERS) {
        const last = run.get(name).last;
        const text = name === "tokens_per_second" ? count : number;
        fill(values[name], last === undefined ? "" : text(last));
      }
      fill(values.skipped, run.skippedCount > 0 ? count(run.skippedCount) : "");
    }
  }
}

/** A number that a run lacks takes no room. */
function fill(value, text) {
  setText(value, text);
  value.parentElement.hidden = text === "";
}

/** The calls that made the run: command line, machine; and the report. */
function origin(run) {
  const list = el("div", { class: "origin" });
  const last = run.sessions[run.sessions.length - 1];
  for (const session of run.sessions) {
    const { first_step = 0, time, command, ...rest } = session;
    const machine = Object.entries(rest).filter(([name]) => !OF_END.includes(name));
    const when = time ? `, ${dateTime(time)}` : "";
    list.append(el("h3", {}, t("fromStep", count(first_step)) + when));
    if (command) {
      list.append(el("div", { class: "command" }, el("code", { tabindex: "0" }, command), copyButton(command, first_step)));
    }
    list.append(
      el("p", { class: "machine" }, machine.map(describe).filter(Boolean).join(" · ")),
    );
    const goesOn = run.state === "training" && session === last;
    const toldEnd = session.tells_end || session.ended; // earlier versions did not tell
    if (!goesOn && toldEnd) list.append(el("p", { class: "ending" }, ending({ ended: "killed", ...session })));
  }
  list.append(
    el("p", {}, `${t("folder")}: `, el("code", {}, run.folder)),
    ...(isGpt(run) ? [el("p", {}, `${t("talk")}: `, el("code", { tabindex: "0" }, `tapegrad serve ${inShell(run.folder)}`))] : []),
    el("p", {}, el("a", { href: `api/runs/${run.id}/report.html` }, t("report"))),
    el("details", {}, el("summary", {}, t("allOptions")), optionsOf(run)),
  );
  return list;
}

/** An encoder–decoder translates, and has no serve. */
const isGpt = (run) => run.options.model?.n_layer !== undefined && run.options.model.n_hidden === undefined;

/** How a call of training ended, and why. */
function ending({ ended, ended_at: at, last_step: step, why }) {
  const when = [step === undefined ? "" : t("atStep", count(step)), at ? dateTime(at) : ""];
  return [endWords(ended), ...when].filter(Boolean).join(", ") + (why ? `: ${why}` : "");
}

function describe([name, value]) {
  if (value === null || value === "" || typeof value === "object") return "";
  return `${named(name)} ${value}`;
}

function copyButton(text, step) {
  const button = el("button", { type: "button", "aria-label": t("copyCommand", count(step)) }, t("copy"));
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      setText(button, t("copied"));
      setTimeout(() => setText(button, t("copy")), 1500);
    } catch {
      // Without the right to copy, the command is chosen for the reader to copy it.
      getSelection().selectAllChildren(button.previousSibling);
    }
  });
  return button;
}

function optionsOf(run) {
  const rows = flatOptions(run.options).map(([, name, value]) => [name, value]);
  return table(`${t("allOptions")}: ${run.name}`, [t("option"), t("value")], rows);
}
