// Small helpers for the page's elements. Text goes in as text, never as HTML: samples and names of runs
// are not the page's own words.

/** An element with attributes and children; a property that is a function is an event's listener. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Sets a text only if it differs, so that a reader's selection survives. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A path as a word of a command. */
export const inShell = (path) => (/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);

/** The value kept for the next visit. Storage may be forbidden; the page then forgets. */
export const kept = {
  get(name) {
    try {
      return localStorage.getItem(`tapegrad-${name}`);
    } catch {
      return null;
    }
  },
  set(name, value) {
    try {
      localStorage.setItem(`tapegrad-${name}`, value);
    } catch {
      // Private windows may refuse; nothing is lost but the choice.
    }
  },
};

const known = new Map();

/** After a change of theme. */
export function forgetColors() {
  known.clear();
}

/** The colour of a CSS variable as the canvas needs it: of the theme that is in force. */
export function colorOf(variable) {
  if (!known.has(variable)) known.set(variable, computedColor(variable)); // asking it restyles the page
  return known.get(variable);
}

function computedColor(variable) {
  let probe = document.getElementById("probe");
  if (!probe) document.body.append((probe = el("i", { id: "probe", hidden: true })));
  probe.style.color = `var(${variable})`;
  return getComputedStyle(probe).color;
}

/** The same colour, see-through. */
export function fade(color, alpha) {
  const parts = color.match(/[\d.]+/g).slice(0, 3);
  return `rgba(${parts.join(",")},${alpha})`;
}

/** Shows these texts, each in an element of its own, if others are shown. */
export function setTags(parent, tags) {
  const shown = [...parent.children].map((child) => child.textContent);
  if (JSON.stringify(shown) !== JSON.stringify(tags)) parent.replaceChildren(...tags.map((tag) => el("span", {}, tag)));
}

/** A row of buttons of which one is pressed. choices: [value, label] pairs. */
export function segments(label, choices, chosen, choose) {
  const group = el("div", { class: "segments", role: "group", "aria-label": label });
  for (const [value, text] of choices) {
    group.append(
      el(
        "button",
        { type: "button", "aria-pressed": String(value === chosen), "data-value": value, click: () => pick(value) },
        text,
      ),
    );
  }
  function pick(value) {
    for (const button of group.children) {
      button.setAttribute("aria-pressed", String(button.dataset.value === String(value)));
    }
    choose(value);
  }
  return group;
}

/** A table of texts, with a caption for those who hear it. */
export function table(caption, head, rows) {
  return el(
    "div",
    { class: "table", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", { class: "unseen" }, caption),
      el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col" }, text)))),
      el(
        "tbody",
        {},
        ...rows.map(([first, ...others]) =>
          el("tr", {}, el("th", { scope: "row" }, first), ...others.map((text) => el("td", {}, text))),
        ),
      ),
    ),
  );
}

/** A text in which {0}, {1}… are values, and {0:value:values} is the first word if value 0 is one, else the second. */
export function filled(text, values) {
  return text.replace(/\{(\d)(?::(\w+):(\w+))?\}/g, (_, i, one, more) => (one ? (String(values[i]) === "1" ? one : more) : values[i]));
}
