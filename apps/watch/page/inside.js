// Draws what `inspect --json` prints: the inside of a model at work on a text. No imports, so that
// the same file can stand inside a page of its own. Texts of the data become text nodes only.

const counted = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

const words = {
  en: {
    summary: (d) => `${nameOf(d.model)}${d.step === null ? "" : `, step ${d.step}`}: ${counted(d.tokens.length, "token")}` +
      (d.loss === null ? "" : `, loss ${d.loss.toFixed(3)}, perplexity ${short(Math.exp(d.loss))}`),
    cut: (shown, all) => `The text has ${counted(all, "token")}. The last ${shown} are shown.`,
    text: "How likely was each token?",
    textHint: "The colour tells the probability that the model gave a token before it saw it. " +
      "Point at a token, or move with the arrow keys, to see what it found likelier.",
    legend: "probability", less: "or less", following: "what follows",
    first: "The first token: nothing was predicted here.",
    given: (token, p, nats) => `${token} had probability ${p}, a loss of ${nats}.`,
    next: "What follows the text:",
    attention: "Where does each head look?",
    attentionHint: "Each small square is a head: a row for each token, with dark places where it looks. " +
      "Choose one; then point at a token to see where that token looks.",
    heads: "All heads", layer: "Block", head: "Head", matrix: "Attention as a matrix",
    headName: (l, h) => `block ${l}, head ${h}`,
    matrixName: (l, h) => `Attention of block ${l}, head ${h}: rows look at columns. ` +
      "The line below tells the chosen row in words.",
    looks: (token, where) => `${token} looks at ${where}.`,
    convolutions: (blocks) => `Without attention, with a convolution, a gated delta net, a Mamba-2 or a feed-forward alone: block ${blocks}.`,
    lens: "What would it say after each block?",
    lensHint: "The model's last layer, applied to the state after each block (the logit lens): " +
      "the likeliest next token, and its probability in percent. A frame marks the token that does follow.",
    embedding: "embedding", block: (n) => `block ${n}`, follows: "follows", token: "token",
    lensTable: "Likeliest next token after each block, for each token of the text",
    gradient: "Which tokens does the loss depend on?",
    gradientHint: "The height is the norm of the loss's gradient with respect to a token's embedding: " +
      "how much a small change of that embedding changes the loss.",
    comma: ", ", gradientOf: (token, g) => `${token}: norm of the gradient ${g}.`,
  },
  zh: {
    summary: (d) => `${nameOf(d.model)}${d.step === null ? "" : `，第 ${d.step} 步`}：${d.tokens.length} 个 token` +
      (d.loss === null ? "" : `，损失 ${d.loss.toFixed(3)}，困惑度 ${short(Math.exp(d.loss))}`),
    cut: (shown, all) => `文本共有 ${all} 个 token，这里显示最后 ${shown} 个。`,
    text: "每个 token 有多大可能？",
    textHint: "颜色表示模型在看到某个 token 之前给它的概率。把鼠标移到 token 上，或用方向键移动，可以看到模型认为更可能的 token。",
    legend: "概率", less: "或更低", following: "接下来",
    first: "第一个 token：这里没有预测。",
    given: (token, p, nats) => `${token} 的概率是 ${p}，损失是 ${nats}。`,
    next: "文本之后：",
    attention: "每个注意力头在看哪里？",
    attentionHint: "每个小方块是一个头：每个 token 一行，颜色深的地方就是它看的位置。选一个头，再把鼠标移到 token 上，看它在看哪里。",
    heads: "所有的头", layer: "块", head: "头", matrix: "注意力矩阵",
    headName: (l, h) => `第 ${l} 个块，第 ${h} 个头`,
    matrixName: (l, h) => `第 ${l} 个块第 ${h} 个头的注意力：行看列。下面一行用文字说明所选的行。`,
    looks: (token, where) => `${token} 看 ${where}。`,
    convolutions: (blocks) => `没有注意力的块（用卷积、门控 delta 网络或 Mamba-2 代替，或只有前馈网络）：${blocks}。`,
    lens: "每个块之后它会说什么？",
    lensHint: "把模型的最后一层用在每个块之后的状态上（logit lens）：最可能的下一个 token，以及它的概率（百分比）。加框的是真正的下一个 token。",
    embedding: "嵌入", block: (n) => `第 ${n} 个块`, follows: "下一个", token: "token",
    lensTable: "文本中每个 token 在每个块之后最可能的下一个 token",
    gradient: "损失取决于哪些 token？",
    gradientHint: "高度是损失对 token 嵌入的梯度的范数：嵌入有微小变化时，损失变化多少。",
    comma: "，", gradientOf: (token, g) => `${token}：梯度的范数 ${g}。`,
  },
};

const MOST_SMALL_HEADS = 1200; // of more, only the chosen one is drawn

// A path's last part.
const nameOf = (path) => path.match(/[^/]+(?=\/*$)/)?.[0] ?? path;
const short = (x) => (x === 0 ? "0" : x >= 1000 || x < 0.001 ? x.toExponential(1) : x.toPrecision(3));
const percent = (p) => (p < 1e-5 ? p.toExponential(1) : `${Number((100 * p).toPrecision(p < 0.9995 ? 3 : 4))} %`);
const visible = (text, space = "␣") => text.replaceAll(" ", space).replaceAll("\n", "↵").replaceAll("\t", "⇥") || "∅";
const quoted = (text) => `“${visible(text)}”`;

function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

// Tints an element: blue above a probability of 0.01, orange below, the stronger the further away.
function tint(element, p) {
  const level = Math.max(-1, Math.min(1, 1 + Math.log10(Math.max(p, 1e-9)) / 2));
  element.classList.add(level >= 0 ? "likely" : "surprise");
  element.style.setProperty("--strength", `${Math.round(Math.abs(level) * 58)}%`);
}

// The choice, and who wants to know of it.
class Choice {
  constructor(data) {
    this.data = data;
    // To begin with, the token that surprised the model most, and the head that looks most sharply.
    const next = data.predictions.map((one) => one.next ?? 1);
    this.position = next.indexOf(Math.min(...next)) + 1;
    const sharpness = data.attention.flat().map((weights) => weights.reduce((sum, x) => sum + x * x, 0));
    const sharpest = sharpness.indexOf(Math.max(...sharpness)), heads = data.attention[0]?.length ?? 1;
    this.layer = Math.max(0, Math.floor(sharpest / heads));
    this.head = Math.max(0, sharpest % heads);
    this.listeners = [];
  }
  get tokens() { return this.data.tokens; }
  // The number of the block whose attention is `layer`, counted from 1: others may have convolutions.
  block(layer = this.layer) { return (this.data.attention_blocks?.[layer] ?? layer) + 1; }
  // The token behind the text has no attention of its own: the last token's is where it comes from.
  get row() { return Math.min(this.position, this.tokens.length - 1); }
  weights(layer = this.layer, head = this.head) { return this.data.attention[layer][head]; }
  weight(q, k) { return this.weights()[(q * (q + 1)) / 2 + k] / 1000; }
  when(listener) { this.listeners.push(listener), listener(); }
  set(change) {
    if (Object.entries(change).every(([name, value]) => this[name] === value)) return;
    Object.assign(this, change);
    for (const listener of this.listeners) listener();
  }
}

// Moves the focus among buttons, of which one is reached by Tab. `columns` in a row.
function moveByKeys(box, buttons, columns, choose) {
  box.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(event.target.closest("button"));
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns,
      Home: -at, End: buttons.length - 1 - at }[event.key];
    if (at < 0 || step === undefined) return;
    event.preventDefault();
    const to = Math.max(0, Math.min(buttons.length - 1, at + step));
    choose(to);
    buttons[to].focus();
  });
}

// The tokens as a row of buttons that wraps. dress(button, i) gives one its colour or its bar.
function tokenStrip(choice, name, className, dress, more = [], spaces = " ") {
  const texts = [...choice.tokens.map((token) => token.text), ...more];
  const box = el("div", { className: `tokens ${className}`, role: "group", "aria-label": name });
  const buttons = texts.map((text, i) => {
    const button = el("button", { type: "button", className: "token", tabIndex: -1 });
    button.append(el("span", { className: text.trim() === "" ? "faint" : "", textContent: visible(text, spaces) }));
    if (text.trim() === "") button.setAttribute("aria-label", visible(text));
    dress?.(button, i);
    box.append(button);
    if (text.includes("\n")) box.append(el("span", { className: "line-end" }));
    return button;
  });
  const choose = (position) => choice.set({ position });
  const indexOf = (event) => buttons.indexOf(event.target.closest("button"));
  for (const kind of ["pointerover", "focusin", "click"]) {
    box.addEventListener(kind, (event) => indexOf(event) >= 0 && choose(indexOf(event)));
  }
  moveByKeys(box, buttons, 1, choose);
  let marked = buttons[0];
  choice.when(() => {
    marked.classList.remove("chosen");
    marked.removeAttribute("aria-current");
    marked.tabIndex = -1;
    marked = buttons[Math.min(choice.position, buttons.length - 1)];
    marked.classList.add("chosen");
    marked.setAttribute("aria-current", "true");
    marked.tabIndex = 0;
  });
  return { box, buttons };
}

function section(title, hint, ...children) {
  return el("section", {}, el("h2", { textContent: title }), el("p", { className: "hint", textContent: hint }),
    ...children);
}

function textSection(choice, w) {
  const probability = (i) => (i === 0 ? null : choice.data.predictions[i - 1].next);
  const legend = el("p", { className: "legend" }, el("span", { textContent: `${w.legend}:` }));
  for (const p of [1, 0.1, 0.01, 0.001, 0.0001]) {
    const sample = el("span", { className: "sample", textContent: p === 0.0001 ? `${p} ${w.less}` : `${p}` });
    tint(sample, p);
    legend.append(sample);
  }
  const dress = (button, i) => {
    const p = i < choice.tokens.length ? probability(i) : null;
    if (p !== null) tint(button, p);
    if (i === choice.tokens.length) button.classList.add("following");
  };
  const { box } = tokenStrip(choice, w.text, "text", dress, [`${w.following} …`]);
  const line = el("p"), bars = el("ol", { className: "best" });
  choice.when(() => {
    const i = choice.position;
    const p = i < choice.tokens.length ? probability(i) : null;
    if (i === 0) line.textContent = w.first;
    else if (p === null) line.textContent = w.next;
    else line.textContent = w.given(quoted(choice.tokens[i].text), percent(p), (-Math.log(Math.max(p, 1e-45))).toFixed(2));
    bars.replaceChildren(...(i === 0 ? [] : choice.data.predictions[i - 1].best).map((guess) => {
      const bar = el("span", { className: "bar" });
      bar.style.setProperty("--share", `${100 * guess.probability}%`);
      return el("li", { className: choice.tokens[i]?.id === guess.id ? "right" : "" },
        el("span", { className: "guess", textContent: visible(guess.text) }),
        el("span", { className: "track" }, bar), el("span", { className: "number", textContent: percent(guess.probability) }));
    }));
  });
  const detail = el("div", { className: "detail", "aria-live": "polite" }, line, bars);
  return section(w.text, w.textHint, legend, box, detail);
}

// The colour of a CSS variable as three bytes.
function bytesOf(element, variable) {
  const context = el("canvas", { width: 1, height: 1 }).getContext("2d");
  context.fillStyle = getComputedStyle(element).getPropertyValue(variable).trim();
  context.fillRect(0, 0, 1, 1);
  return context.getImageData(0, 0, 1, 1).data;
}

// One pixel for each weight; the root makes small ones visible.
function paintHead(canvas, weights, size, [r, g, b]) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(size, size);
  for (let q = 0, i = 0; q < size; ++q) {
    for (let k = 0; k <= q; ++k, ++i) {
      const alpha = 20 + 235 * Math.sqrt(weights[i] / 1000);
      image.data.set([r, g, b, alpha], 4 * (q * size + k));
    }
  }
  context.putImageData(image, 0, 0);
}

function headGrid(choice, w, repaint) {
  const layers = choice.data.attention.length, heads = choice.data.attention[0].length;
  const grid = el("div", { className: "heads", role: "group", "aria-label": w.heads });
  grid.style.setProperty("--heads", heads);
  const buttons = [];
  const size = choice.tokens.length;
  for (let layer = 0; layer < layers; ++layer) {
    grid.append(el("span", { className: "layer", "aria-hidden": "true", textContent: choice.block(layer) }));
    for (let head = 0; head < heads; ++head) {
      const canvas = el("canvas", { width: size, height: size, "aria-hidden": "true" });
      const name = w.headName(choice.block(layer), head + 1);
      const button = el("button", { type: "button", title: name, "aria-label": name }, canvas);
      buttons.push(button);
      grid.append(button);
    }
  }
  const choose = (i) => choice.set({ layer: Math.floor(i / heads), head: i % heads });
  grid.addEventListener("click", (event) => {
    const i = buttons.indexOf(event.target.closest("button"));
    if (i >= 0) choose(i);
  });
  moveByKeys(grid, buttons, heads, choose);
  choice.when(() => buttons.forEach((button, i) => {
    const chosen = i === choice.layer * heads + choice.head;
    button.setAttribute("aria-pressed", chosen);
    button.tabIndex = chosen ? 0 : -1;
  }));
  repaint.push(() => {
    const colour = bytesOf(grid, "--inside-look");
    buttons.forEach((button, i) =>
      paintHead(button.firstChild, choice.weights(Math.floor(i / heads), i % heads), size, colour));
  });
  return el("div", { className: "scroll" }, grid);
}

// The chosen head: rows look at columns. Returns where the cells are, for the pointer.
function paintMatrix(canvas, choice) {
  const T = choice.tokens.length, context = canvas.getContext("2d");
  const style = getComputedStyle(canvas), colour = (name) => style.getPropertyValue(name).trim();
  const cell = Math.max(3, Math.min(26, Math.floor(620 / T))), labelled = cell >= 11;
  const font = `${Math.min(13, cell)}px ui-monospace, monospace`;
  const labels = choice.tokens.map((token) => visible(token.text).slice(0, 12));
  context.font = font;
  const widest = Math.max(...labels.map((label) => context.measureText(label).width));
  const margin = labelled ? Math.ceil(widest) + 10 : 2;
  const side = margin + T * cell + 2, scale = window.devicePixelRatio || 1;
  canvas.width = canvas.height = Math.round(side * scale);
  canvas.style.width = canvas.style.height = `${side}px`;
  context.scale(scale, scale);
  context.font = font;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const gap = cell >= 8 ? 1 : 0;
  for (let q = 0; q < T; ++q) {
    context.fillStyle = colour("--inside-look");
    for (let k = 0; k <= q; ++k) {
      context.globalAlpha = 0.07 + 0.93 * Math.sqrt(choice.weight(q, k));
      context.fillRect(margin + k * cell, margin + q * cell, cell - gap, cell - gap);
    }
    context.globalAlpha = 1;
    if (!labelled) continue;
    const middle = margin + (q + 0.5) * cell;
    context.fillStyle = colour(q === choice.row ? "--fg" : "--muted");
    context.fillText(labels[q], margin - 6, middle);
    context.save();
    context.translate(middle, margin - 6);
    context.rotate(Math.PI / 2);
    context.fillText(labels[q], 0, 0);
    context.restore();
  }
  context.strokeStyle = colour("--fg");
  context.lineWidth = 1.5;
  context.strokeRect(margin - 1, margin + choice.row * cell - 1, (choice.row + 1) * cell + 1 - gap, cell + 1 - gap);
  return { margin, cell };
}

function picker(choice, w, what, count, number) {
  const select = el("select");
  for (let i = 0; i < count; ++i) select.append(el("option", { value: i, textContent: number(i) }));
  select.addEventListener("change", () => choice.set({ [what]: Number(select.value) }));
  choice.when(() => { select.value = choice[what]; });
  return el("label", {}, `${w[what]} `, select);
}

// Names the blocks without attention, if there are some.
function convolutionsNote({ lens, attention_blocks: blocks }, w) {
  if (blocks === undefined) return [];
  const others = lens.slice(1).map((_, block) => block).filter((block) => !blocks.includes(block));
  return [el("p", { className: "note", textContent: w.convolutions(others.map((block) => block + 1).join(w.comma)) })];
}

function attentionSection(choice, w, repaint) {
  const note = convolutionsNote(choice.data, w);
  if (choice.data.attention.length === 0) return section(w.attention, "", el("div", {}, ...note));
  const layers = choice.data.attention.length, heads = choice.data.attention[0].length;
  const pickers = el("p", { className: "pickers" }, picker(choice, w, "layer", layers, (i) => choice.block(i)),
    picker(choice, w, "head", heads, (i) => i + 1));
  const canvas = el("canvas", { className: "matrix", role: "img" });
  const { box, buttons } = tokenStrip(choice, w.attention, "looked-at");
  const line = el("p", { className: "detail", "aria-live": "polite" });
  let place = { margin: 0, cell: 1 };
  const paint = () => { if (canvas.isConnected) place = paintMatrix(canvas, choice); };
  repaint.push(paint);
  choice.when(() => {
    canvas.setAttribute("aria-label", w.matrixName(choice.block(), choice.head + 1));
    const row = choice.tokens.map((token, k) => ({ text: token.text, weight: k <= choice.row ? choice.weight(choice.row, k) : 0 }));
    row.forEach(({ weight }, k) => buttons[k].style.setProperty("--strength", `${Math.round(52 * Math.sqrt(weight))}%`));
    const most = row.filter((one) => one.weight >= 0.01).sort((a, b) => b.weight - a.weight).slice(0, 5);
    line.textContent = w.looks(quoted(choice.tokens[choice.row].text),
      most.map((one) => `${quoted(one.text)} ${Math.round(100 * one.weight)} %`).join(w.comma));
    paint();
  });
  for (const kind of ["pointermove", "click"]) {
    canvas.addEventListener(kind, (event) => {
      const q = Math.floor((event.offsetY - place.margin) / place.cell);
      if (q >= 0 && q < choice.tokens.length) choice.set({ position: q });
    });
  }
  const matrix = el("div", { className: "scroll", role: "region", "aria-label": w.matrix, tabIndex: 0 }, canvas);
  const chosen = el("div", { className: "chosen-head" }, pickers, box, line, matrix);
  const overview = layers * heads <= MOST_SMALL_HEADS ? [headGrid(choice, w, repaint)] : [];
  return section(w.attention, w.attentionHint, el("div", { className: "attention" }, ...note, ...overview, chosen));
}

function lensSection(choice, w) {
  const { lens } = choice.data;
  const columns = choice.tokens.map(() => []);
  const cell = (i, made) => { columns[i].push(made), (made.dataset.position = i); return made; };
  const head = el("tr", {}, el("th", { scope: "row", textContent: w.token }), ...choice.tokens.map((token, i) =>
    cell(i, el("th", { scope: "col", textContent: visible(token.text) }))));
  const rows = lens.map((row, layer) => el("tr", {},
    el("th", { scope: "row", textContent: layer === 0 ? w.embedding : w.block(layer) }),
    ...row.map((at, i) => {
      const right = i + 1 < choice.tokens.length && at.text === choice.tokens[i + 1].text;
      const made = cell(i, el("td", { className: right ? "right" : "" }, el("span", { textContent: visible(at.text) }),
        el("small", { textContent: Math.round(100 * at.probability) })));
      made.style.setProperty("--strength", `${Math.round(62 * Math.sqrt(at.probability))}%`);
      return made;
    })));
  const body = el("tbody", {}, ...rows);
  const foot = el("tfoot", {}, el("tr", {}, el("th", { scope: "row", textContent: w.follows }), ...choice.tokens.map((_, i) =>
    cell(i, el("td", { textContent: i < choice.tokens.length - 1 ? visible(choice.tokens[i + 1].text) : "" })))));
  const table = el("table", { className: "lens" }, el("caption", { textContent: w.lensTable }), el("thead", {}, head), body, foot);
  table.addEventListener("click", (event) => {
    const at = event.target.closest("[data-position]");
    if (at) choice.set({ position: Number(at.dataset.position) + 1 });
  });
  let marked = [];
  choice.when(() => {
    // The column whose prediction the chosen token is.
    marked.forEach((one) => one.classList.remove("chosen"));
    marked = columns[Math.max(0, choice.position - 1)];
    marked.forEach((one) => one.classList.add("chosen"));
  });
  return section(w.lens, w.lensHint, el("div", { className: "scroll", role: "region", "aria-label": w.lens, tabIndex: 0 }, table));
}

function gradientSection(choice, w) {
  const norms = choice.data.input_gradient, most = Math.max(...norms, 1e-30);
  const { box } = tokenStrip(choice, w.gradient, "bars", (button, i) => {
    const bar = el("span", { className: "bar", "aria-hidden": "true" });
    bar.style.setProperty("--share", `${Math.round((100 * norms[i]) / most)}%`);
    button.prepend(bar);
  });
  const line = el("p", { className: "detail", "aria-live": "polite" });
  choice.when(() => {
    line.textContent = w.gradientOf(quoted(choice.tokens[choice.row].text), short(norms[choice.row]));
  });
  return section(w.gradient, w.gradientHint, box, line);
}

const drawn = new WeakMap(); // element → what it shows, to go on with or to stop

// Fills `element` with the views of `data`, the object that `inspect --json` prints. `language` is
// "en" or "zh". A second call replaces the first one's views; of the same data, the choice stays.
export function renderInside(element, data, language) {
  const before = drawn.get(element);
  before?.stop.abort();
  const w = words[language] ?? words.en, choice = new Choice(data), stop = new AbortController(), repaint = [];
  if (before?.data === data) Object.assign(choice, before.choice());
  const cut = data.cut ? [el("p", { className: "note", textContent: w.cut(data.tokens.length, data.text_tokens) })] : [];
  element.classList.add("inside");
  element.replaceChildren(el("p", { className: "summary", title: data.model, textContent: w.summary(data) }), ...cut, textSection(choice, w),
    attentionSection(choice, w, repaint), lensSection(choice, w), gradientSection(choice, w));
  const paint = () => (element.isConnected ? repaint.forEach((one) => one()) : stop.abort());
  const themes = new MutationObserver(paint);
  themes.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  stop.signal.addEventListener("abort", () => themes.disconnect());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint, { signal: stop.signal });
  drawn.set(element, { data, stop, choice: () => ({ position: choice.position, layer: choice.layer, head: choice.head }) });
  paint();
}
