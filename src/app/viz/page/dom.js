// Elements, numbers in words, lists that draw only what is seen. Texts of recordings only ever become text nodes.

export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null));
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null));
  return element;
}

export function bytesText(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  return `${unit === 0 || bytes >= 100 ? Math.round(bytes) : bytes.toPrecision(3)} ${units[unit]}`;
}

export function timeText(seconds) {
  if (seconds >= 1) return `${seconds.toPrecision(3)} s`;
  if (seconds >= 1e-3) return `${(seconds * 1e3).toPrecision(3)} ms`;
  if (seconds >= 1e-6) return `${(seconds * 1e6).toPrecision(3)} µs`;
  return `${Math.round(seconds * 1e9)} ns`;
}

export const percentText = (share) => `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} %`;
export const countText = (value) => value.toLocaleString("en-US", { maximumFractionDigits: value < 10 ? 1 : 0 });

// More than memory gives comes from caches.
export const rooflineText = (share) => (share > 1.05 ? "cached" : percentText(share));

// Slow is warm, at the roofline is cool; the same in both schemes, with dark text on it where it is light.
const kScale = [
  [178, 50, 36],
  [224, 123, 57],
  [235, 190, 92],
  [150, 190, 150],
  [62, 138, 140],
];
export function shareColour(share) {
  const at = Math.max(0, Math.min(1, share)) * (kScale.length - 1),
    i = Math.min(Math.floor(at), kScale.length - 2);
  return `rgb(${kScale[i].map((c, k) => Math.round(c + (kScale[i + 1][k] - c) * (at - i))).join(" ")})`;
}

export function legend() {
  const canvas = el("canvas", { width: 90, height: 9, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  for (let x = 0; x < 90; ++x) {
    context.fillStyle = shareColour(x / 89);
    context.fillRect(x, 0, 1, 9);
  }
  return el("span", { class: "legend" }, "0 %", canvas, "100 % of the roofline");
}

const kStages = ["#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#eeca3b", "#9d755d", "#8a8a86"];
const known = new Map();
export function stageColour(stage) {
  if (!known.has(stage)) known.set(stage, kStages[known.size % kStages.length]);
  return known.get(stage);
}

// What can be read on a colour "#rrggbb".
export function textOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return 0.299 * red + 0.587 * green + 0.114 * blue > 135 ? "#1d1d1b" : "#ffffff";
}

export function tip(text, event) {
  const box = document.getElementById("tip");
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  const { width, height } = box.getBoundingClientRect();
  box.style.left = `${Math.min(event.clientX + 14, innerWidth - width - 8)}px`;
  box.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
}

// Rows of one height, of which only those in sight are elements. `fill(row, i)` puts what row i shows into an element.
export class VirtualList {
  constructor({ rowHeight, fill, className = "list", onPick = null, label = "" }) {
    Object.assign(this, { rowHeight, fill, onPick });
    this.count = 0;
    this.picked = -1;
    this.drawn = new Map();
    this.space = el("div", { class: "space" });
    this.root = el(
      "div",
      { class: className, tabindex: "0", role: onPick ? "listbox" : "document", "aria-label": label },
      this.space,
    );
    this.root.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.root);
    if (onPick) this.root.addEventListener("keydown", (event) => this.key(event));
  }

  set(count, picked = -1) {
    this.count = count;
    this.picked = picked;
    this.space.style.height = `${count * this.rowHeight}px`;
    this.refresh();
    if (picked >= 0) this.show(picked);
  }

  refresh() {
    this.space.replaceChildren();
    this.drawn.clear();
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.root.scrollTop / this.rowHeight) - 8);
    const end = Math.min(this.count, Math.ceil((this.root.scrollTop + this.root.clientHeight) / this.rowHeight) + 8);
    for (const [i, row] of this.drawn)
      if (i < first || i >= end) {
        row.remove();
        this.drawn.delete(i);
      }
    for (let i = first; i < end; ++i) {
      if (this.drawn.has(i)) continue;
      const row = el("div", { class: "row" });
      row.style.top = `${i * this.rowHeight}px`;
      row.style.height = row.style.lineHeight = `${this.rowHeight}px`;
      this.fill(row, i);
      if (this.onPick) {
        row.setAttribute("role", "option");
        row.classList.toggle("picked", i === this.picked);
        row.addEventListener("click", () => this.pick(i));
      }
      this.drawn.set(i, row);
      this.space.append(row);
    }
  }

  show(i) {
    const top = i * this.rowHeight,
      view = this.root;
    if (top < view.scrollTop || top + this.rowHeight > view.scrollTop + view.clientHeight)
      view.scrollTop = Math.max(0, top - view.clientHeight / 3);
    this.draw();
  }

  pick(i) {
    if (i < 0 || i >= this.count) return;
    this.picked = i;
    for (const [n, row] of this.drawn) row.classList.toggle("picked", n === i);
    this.show(i);
    this.onPick(i);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.root.clientHeight / this.rowHeight) - 1);
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page }[event.key];
    if (step !== undefined) this.pick(Math.max(0, Math.min(this.count - 1, this.picked + step)));
    else if (event.key === "Home") this.pick(0);
    else if (event.key === "End") this.pick(this.count - 1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

export function table(heads, rows) {
  const head = el(
    "tr",
    {},
    heads.map(([name, kind = ""]) => el("th", { class: kind }, name)),
  );
  return el(
    "table",
    {},
    el("thead", {}, head),
    el(
      "tbody",
      {},
      rows.map(({ cells, go, title }) => {
        const row = el(
          "tr",
          go ? { class: "go", tabindex: "0", title } : { title },
          cells.map((cell, i) => el("td", { class: heads[i][1] ?? "" }, cell)),
        );
        if (go) {
          row.addEventListener("click", go);
          row.addEventListener("keydown", (event) => event.key === "Enter" && go());
        }
        return row;
      }),
    ),
  );
}

export function empty(...text) {
  return el("div", { class: "empty" }, ...text);
}
