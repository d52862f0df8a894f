// The runs that the server knows, their numbers, and how they are kept up to date: a history once, then
// events. Whatever may have been missed (a reset, a gap, a new connection) is fetched again.
import { along } from "./axis.js";
import { shareOutColors } from "./colors.js";
import { Series } from "./series.js";

const MOST_SAMPLES = 200;
const MOST_SKIPPED = 200;
const MOST_LAYER_RECORDS = 300;
const MOST_WAITING = 2000;
const OF_BATCH = ["loss", "norm"]; // of a skipped step: those of a batch that taught nothing
const MOST_AT_FIRST = 8; // runs in the charts, until a reader chooses others
const MOST_OPEN = 2; // runs whose cards are open by themselves

/** One run. Its folder is its name across restarts of the server; ids may change. */
class Run {
  constructor(key) {
    this.key = key;
    this.color = null; // while it is not shown
    this.shown = null; // not decided yet
    this.open = false;
    this.notes = { name: "", tags: [], text: "" };
    this.ready = false; // its history has come
    this.clear();
  }

  clear() {
    this.lines = this.layerLines = 0;
    this.series = new Map();
    this.samples = [];
    this.skipped = []; // the newest of them; skippedCount is of all
    this.skippedCount = 0;
    this.layers = { names: [], iterations: [], gradient: [], weight: [], update: [] };
  }

  get(name) {
    return this.series.get(name) ?? new Series();
  }

  /** The last step that was told of. */
  get step() {
    let last = this.skipped[this.skipped.length - 1] ?? 0;
    for (const { xs } of this.series.values()) last = Math.max(last, xs[xs.length - 1] ?? 0);
    return last;
  }

  /** {name, value, step, train} of the lowest validation loss, with the train loss of its evaluation; without one, of the lowest train loss. */
  get best() {
    for (const name of ["val_loss", "loss"]) {
      const { xs, ys } = this.get(name);
      if (ys.length === 0) continue;
      const value = ys.reduce((low, y) => Math.min(low, y), Infinity);
      const step = xs[ys.indexOf(value)];
      const beside = this.get("train_loss");
      return { name, value, step, train: name === "loss" ? value : beside.ys[beside.xs.indexOf(step)] };
    }
    return undefined;
  }

  /** Tokens until the last step, undefined if that is unknown. */
  get tokens() {
    return along(this, "tokens")?.(this.step);
  }

  /** Seconds of training until the last step. */
  get seconds() {
    return along(this, "time")?.(this.step);
  }

  /** Seconds until the last step, or null. */
  get secondsLeft() {
    const ms = this.get("ms").median(20);
    if (this.state !== "training" || !ms || !this.maxIters) return null;
    return (Math.max(0, this.maxIters - this.step) * ms) / 1000;
  }

  take(history) {
    this.clear();
    this.lines = history.lines;
    this.layerLines = history.layer_lines;
    for (const [name, [xs, ys]] of Object.entries(history.series)) this.series.set(name, new Series(xs, ys));
    this.samples = history.samples.slice(-MOST_SAMPLES);
    this.skipped = history.skipped.slice(-MOST_SKIPPED);
    this.skippedCount = history.skipped_count ?? history.skipped.length;
    if (history.layers?.names) this.layers = history.layers;
    this.ready = true;
  }

  /** A line of metrics.jsonl, {} if it was broken. Returns what has changed. */
  add(values) {
    const { iteration } = values;
    if (values.skipped) {
      push(this.skipped, iteration, MOST_SKIPPED);
      ++this.skippedCount;
    }
    if (typeof values.sample === "string") {
      const { sample: text, prompt, wanted } = values;
      push(this.samples, typeof wanted === "string" ? { iteration, text, prompt, wanted } : { iteration, text }, MOST_SAMPLES);
    }
    for (const [name, value] of Object.entries(values)) {
      if (name === "iteration" || !Number.isFinite(value)) continue;
      if (values.skipped && OF_BATCH.includes(name)) continue;
      if (!this.series.has(name)) this.series.set(name, new Series());
      this.series.get(name).push(iteration, value);
    }
    const written = this.samples[this.samples.length - 1]?.iteration;
    return iteration === written ? ["metrics", "samples"] : ["metrics"]; // a sample has its step's loss beside it
  }

  /** A line of layers.jsonl, {} if it was broken. Returns what has changed. */
  addLayers({ iteration, layers }) {
    if (!layers) return [];
    const all = this.layers;
    for (const name of Object.keys(layers)) {
      if (!all.names.includes(name)) all.names.push(name);
    }
    all.iterations.push(iteration);
    for (const kind of ["gradient", "weight", "update"]) {
      all[kind].push(all.names.map((name) => layers[name]?.[kind] ?? null));
    }
    if (all.iterations.length <= MOST_LAYER_RECORDS) return ["layers"];
    const keep = (_, i) => i % 2 === 0 || i === all.iterations.length - 1;
    for (const kind of ["gradient", "weight", "update"]) all[kind] = all[kind].filter(keep);
    all.iterations = all.iterations.filter(keep);
    return ["layers"];
  }
}

function push(list, item, most) {
  list.push(item);
  if (list.length > most) list.splice(1, list.length - most); // the first one stays
}

export class Runs {
  /** changed(what…) is called after "runs", "connection", or "metrics", "samples", "layers" of a run changed. */
  constructor(changed) {
    this.changed = changed;
    this.list = [];
    this.inspect = this.talk = false;
    this.full = false; // the server left runs out
    this.keepsNotes = false;
    this.folders = []; // that the server was given
    this.version = "";
    this.connection = "connecting";
    this.byId = new Map();
    this.turn = 0; // of questions for the list; only the last one's answer counts
  }

  get shown() {
    return this.list.filter((run) => run.shown);
  }

  start() {
    const inSight = () => (document.hidden ? this.disconnect() : this.connect());
    document.addEventListener("visibilitychange", inSight);
    inSight();
  }

  /** Out of sight: a browser has six connections to a host, and each page that listens takes one. */
  disconnect() {
    this.source?.close();
    clearTimeout(this.retry);
    this.forget();
    this.setConnection("connecting");
  }

  connect() {
    this.source?.close();
    clearTimeout(this.retry);
    const source = (this.source = new EventSource("api/events"));
    source.onopen = () => {
      this.setConnection("live");
      this.forget();
      this.fetchRuns(true);
    };
    source.onerror = () => {
      this.setConnection("lost");
      this.forget();
      // The browser tries again by itself, except after an answer that is no stream.
      if (source.readyState === EventSource.CLOSED) {
        clearTimeout(this.retry);
        this.retry = setTimeout(() => this.connect(), 2000);
      }
    };
    const on = (name, act) => source.addEventListener(name, (event) => act(JSON.parse(event.data)));
    on("metrics", (event) => this.line(event, "lines", "add"));
    on("layers", (event) => this.line(event, "layerLines", "addLayers"));
    on("reset", ({ run }) => this.byId.has(run) && this.load(this.byId.get(run)));
    on("runs", () => this.fetchRuns());
  }

  /** A server that was restarted may count anew: until its list has come, an id is nobody's, and no answer to it is taken. */
  forget() {
    this.byId = new Map();
    ++this.turn;
  }

  setConnection(connection) {
    if (this.connection === connection) return;
    this.connection = connection;
    this.changed("connection");
  }

  /** One line of a run's file: the next one is added, an older one is known, a later one leaves a gap. */
  line({ run: id, line, values }, count, add) {
    const run = this.byId.get(id);
    if (!run || run.timer) return;
    if (run.loading) {
      if (run.waiting.length < MOST_WAITING) run.waiting.push([{ run: id, line, values }, count, add]);
      else run.again = true;
      return;
    }
    if (!run.ready || line > run[count]) {
      this.load(run);
    } else if (line === run[count]) {
      ++run[count];
      this.changed(...run[add](values));
    }
  }

  /** Fetches the list; with `afresh`, all histories, too: ids and files may be others than before. */
  async fetchRuns(afresh = false) {
    this.afresh ||= afresh;
    const turn = ++this.turn;
    let answer;
    try {
      answer = await fetchJson("api/runs");
    } catch {
      if (turn === this.turn && this.connection === "live") setTimeout(() => turn === this.turn && this.fetchRuns(), 2000);
      return;
    }
    if (turn !== this.turn) return; // a later question is on its way
    const all = this.afresh;
    this.afresh = false;
    this.inspect = answer.inspect;
    this.talk = answer.talk === true;
    this.version = answer.version;
    this.full = answer.full === true;
    this.keepsNotes = answer.keeps_notes === true;
    this.folders = answer.folders ?? [];
    const known = new Map(this.list.map((run) => [run.key, run]));
    this.byId = new Map();
    this.list = answer.runs.map((told) => {
      const run = known.get(told.folder) ?? new Run(told.folder);
      known.set(told.folder, run);
      const notes = told.notes ?? run.notes;
      Object.assign(run, { id: told.id, folder: told.folder, state: told.state, reason: told.reason ?? "" });
      Object.assign(run, { notes, name: notes.name || told.name, folderName: told.name });
      Object.assign(run, { maxIters: told.max_iters, options: told.options ?? {}, sessions: told.sessions ?? [] });
      this.byId.set(told.id, run);
      return run;
    });
    this.introduce(this.list.filter(({ shown }) => shown === null));
    this.changed("runs");
    for (const run of this.list) {
      if (all || !run.ready) this.load(run);
    }
  }

  /** Decides which new runs are in the charts: those in training and the newest, as far as there is room. */
  introduce(fresh) {
    const begun = ({ sessions }) => sessions[0]?.time ?? "";
    const rank = (run) => (run.state === "training" ? "1" : "0") + begun(run);
    const room = MOST_AT_FIRST - this.shown.length;
    fresh.sort((a, b) => (rank(a) < rank(b) ? 1 : rank(a) > rank(b) ? -1 : 0));
    fresh.forEach((run, i) => {
      run.shown = i < room;
      run.open = this.list.length <= MOST_OPEN;
    });
    shareOutColors(this.list);
  }

  /** Fetches a run's history; lines that come in the meantime wait for it. */
  async load(run) {
    if (this.byId.get(run.id) !== run) return; // the next list will have it loaded
    if (run.loading) {
      run.again = true;
      return;
    }
    run.loading = true;
    run.again = false;
    run.waiting = [];
    let failed = false;
    try {
      const id = run.id;
      const history = await fetchJson(`api/runs/${id}/history`);
      if (this.byId.get(id) === run) run.take(history);
      else run.again = true; // the server was restarted while this was asked
    } catch {
      failed = true;
    }
    run.loading = false;
    const waiting = run.waiting;
    run.waiting = [];
    if (failed || run.again) {
      // Not at once: a file that is cut again and again must not keep the page busy.
      if (this.list.includes(run) && !run.timer) {
        run.timer = setTimeout(() => ((run.timer = 0), this.load(run)), 1000);
      }
    } else {
      for (const line of waiting) this.line(...line);
    }
    this.changed("metrics", "samples", "layers");
  }
}

async function fetchJson(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}
