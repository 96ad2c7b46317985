// Search: what a tune has tried for a kernel, predicted against measured time, and the way to the winner.
import { VirtualList, countText, el, empty, percentText, svg, tip } from "./dom.js";

const kPlot = { width: 760, height: 420, left: 62, right: 16, top: 16, bottom: 62 };
const microseconds = (us) => (us >= 1000 ? `${(us / 1000).toPrecision(3)} ms` : `${us.toPrecision(3)} µs`);

// [parent, generation, estimate, ratio, last ratio, options, problem] with names.
function trialsOf(search) {
  return search.trials.map(([parent, generation, estimate, ratio, last, options, problem = ""], number) => {
    const fate = problem ? "wrong" : ratio > 0 ? "timed" : "passed over";
    return { number, parent, generation, estimate, ratio, last, options, problem, fate };
  });
}

// From a trial back to where it began, the beginning first.
function pathTo(trials, number) {
  const path = [];
  for (let at = number; at >= 0; at = trials[at].parent) path.unshift(trials[at]);
  return path;
}

// What the words of a list of options have lost and gained.
function stepBetween(before, after) {
  const left = before.split(" "),
    added = [];
  for (const word of after.split(" ")) {
    const at = left.indexOf(word);
    if (at < 0) added.push(word);
    else left.splice(at, 1);
  }
  const only = (words, sign) => words.filter((word) => word !== "|" && word !== "none").map((word) => `${sign}${word}`);
  return [...only(left, "−"), ...only(added, "+")].join("  ") || "another order";
}

// Round figures between two others, about `most` of them, for a logarithmic axis.
function ticks(low, high, most = 6) {
  const all = [];
  if (high / low < 6) {
    const wish = (high - low) / most,
      power = 10 ** Math.floor(Math.log10(wish)),
      step = power * [1, 2, 5, 10].find((m) => m * power >= wish);
    for (let at = Math.ceil(low / step) * step; at <= high; at += step) all.push(at);
    return all;
  }
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10)
    for (const m of [1, 2, 5]) if (m * power >= low && m * power <= high) all.push(m * power);
  return all;
}

function logScale(values, from, to) {
  const low = Math.min(...values) / 1.06,
    high = Math.max(...values) * 1.06,
    at = (value) => from + ((Math.log(value) - Math.log(low)) / (Math.log(high) - Math.log(low))) * (to - from);
  return Object.assign(at, { low, high });
}

class Scatter {
  constructor(search, trials, onPick) {
    Object.assign(this, { search, trials, onPick });
    this.dots = new Map();
    this.root = el("div", { class: "scatter" });
    const timed = trials.filter((t) => t.fate === "timed" && t.estimate > 0),
      rest = trials.filter((t) => t.fate !== "timed" && t.estimate > 0);
    if (!timed.length) return this.root.append(empty("Nothing was timed."));
    const { width, height, left, right, top, bottom } = kPlot;
    // What was passed over lies in a strip of its own; the worst estimates would squeeze the others.
    const most = 2.5 * Math.max(...timed.map((t) => t.estimate)),
      shown = rest.filter((t) => t.estimate <= most);
    this.x = logScale(
      [...timed, ...shown].map((t) => t.estimate),
      left,
      width - right,
    );
    this.y = logScale([...timed.map((t) => this.time(t)), search.before_us], height - bottom, top);
    this.drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "xMidYMin", role: "img" });
    this.drawing.setAttribute("aria-label", "trials: predicted and measured time");
    this.axes();
    for (const t of shown) this.strip(t);
    for (const t of timed) this.dot(t);
    this.path(pathTo(trials, search.winner));
    this.root.append(this.drawing);
  }

  time(t) {
    return t.ratio * this.search.before_us;
  }

  axes() {
    const { width, height, left, right, bottom } = kPlot,
      text = (attributes, content) => this.drawing.append(svg("text", attributes, content)),
      line = (x1, y1, x2, y2, kind) => this.drawing.append(svg("line", { x1, y1, x2, y2, class: kind }));
    for (const us of ticks(this.x.low, this.x.high)) {
      line(this.x(us), height - bottom, this.x(us), kPlot.top, "grid");
      const isLast = this.x(us) > width - right - 24; // whose text has no room on the right
      text({ x: this.x(us), y: height - 20, "text-anchor": isLast ? "end" : "middle" }, microseconds(us));
    }
    for (const us of ticks(this.y.low, this.y.high)) {
      line(left, this.y(us), width - right, this.y(us), "grid");
      text({ x: left - 6, y: this.y(us) + 4, "text-anchor": "end" }, microseconds(us));
    }
    const before = this.y(this.search.before_us);
    line(left, before, width - right, before, "before");
    text({ x: width - right, y: before - 5, "text-anchor": "end", class: "before" }, "the heuristic's");
    text({ x: (left + width) / 2, y: height - 4, "text-anchor": "middle" }, "predicted, for comparisons among these");
    text({ x: left - 6, y: height - bottom + 20, "text-anchor": "end" }, "not timed");
    const label = svg("text", { transform: `translate(12 ${height / 2 - 20}) rotate(-90)`, "text-anchor": "middle" });
    label.append("measured");
    this.drawing.append(label);
  }

  mark(t, shape, kind) {
    const mark = svg("circle", {
      ...shape,
      class: `trial ${kind}`,
      onclick: () => this.onPick(t),
      onmousemove: (event) => tip(this.says(t), event),
      onmouseleave: () => tip(""),
    });
    this.dots.set(t.number, mark);
    this.drawing.append(mark);
  }

  strip(t) {
    const y = kPlot.height - kPlot.bottom + 12 + (t.number % 5) * 2;
    this.mark(t, { cx: this.x(t.estimate), cy: y, r: t.problem ? 4 : 2 }, t.problem ? "wrong" : "passed");
  }

  dot(t) {
    const kind = t.number === this.search.winner ? "winner" : t.last > 0 ? "last" : t.generation ? "" : "start";
    this.mark(t, { cx: this.x(t.estimate), cy: this.y(this.time(t)), r: kind === "winner" ? 6.5 : 4 }, kind);
  }

  path(steps) {
    const points = steps.filter((t) => t.ratio > 0).map((t) => `${this.x(t.estimate)},${this.y(this.time(t))}`);
    if (points.length > 1) this.drawing.append(svg("polyline", { points: points.join(" "), class: "path" }));
  }

  says(t) {
    const time = t.ratio ? `${microseconds(this.time(t))}, ${t.ratio.toFixed(3)} of the heuristic's time` : t.fate;
    return [`generation ${t.generation}: ${time}`, t.options, t.problem].filter(Boolean).join("\n");
  }

  pick(t) {
    for (const [number, dot] of this.dots) dot.classList.toggle("picked", number === t.number);
  }
}

function searchFacts(search) {
  const fact = (name, value) => el("div", {}, el("small", {}, name), value);
  const after = search.improved ? search.after_us : search.before_us;
  return el(
    "div",
    { class: "facts" },
    fact(search.layout ? "as weights lie now" : "the heuristic's", microseconds(search.before_us)),
    fact("best found", search.winner < 0 ? "none better" : microseconds(search.after_us)),
    fact("gain", search.improved ? `${(search.before_us / after).toFixed(2)} times as fast` : "too little to keep"),
    fact("lists of options", countText(search.considered)),
    fact("hopeless", countText(search.hopeless)),
    fact("compiled", countText(search.compiled)),
    fact("wrong", countText(search.wrong)),
    search.floor_us ? fact("by memory alone", microseconds(search.floor_us)) : null,
  );
}

function wayTo(trials, search) {
  const steps = pathTo(trials, search.winner);
  if (!steps.length) return el("p", { class: "note" }, "Nothing was faster than where it began.");
  return el(
    "ol",
    { class: "way" },
    steps.map((t, i) =>
      el(
        "li",
        {},
        el("span", { class: "num" }, t.ratio ? t.ratio.toFixed(3) : ""),
        " ",
        el("code", {}, i ? stepBetween(steps[i - 1].options, t.options) : t.options),
      ),
    ),
  );
}

// The trials of a search as rows, best first; picking one marks its dot.
function trialList(trials, onPick) {
  const order = { timed: 0, wrong: 1, "passed over": 2 },
    rows = [...trials].sort((a, b) => order[a.fate] - order[b.fate] || a.ratio - b.ratio || a.estimate - b.estimate);
  const list = new VirtualList({
    rowHeight: 24,
    label: "trials",
    onPick: (i) => onPick(rows[i]),
    fill: (row, i) => {
      const t = rows[i];
      row.title = t.problem || t.options;
      row.append(
        el("span", { class: `num fixed${t.problem ? " bad" : ""}` }, t.ratio ? t.ratio.toFixed(3) : t.fate),
        el("small", { class: "num fixed" }, microseconds(t.estimate)),
        el("span", { class: "main mono" }, t.number ? stepBetween(trials[0].options, t.options) : t.options),
      );
    },
  });
  return { list, rows };
}

function searchList(searches, picked, go) {
  const list = new VirtualList({
    rowHeight: 42,
    label: "searches",
    onPick: (i) => go("search", String(i)),
    fill: (row, i) => {
      const s = searches[i],
        gain = s.improved ? `${(s.before_us / s.after_us).toFixed(2)}×` : "";
      const text = el(
        "span",
        { class: "main two" },
        el("span", { class: "mono" }, s.kernel),
        el("br"),
        el("small", {}, [s.plan, s.stage, s.layout && `as ${s.layout}`, s.what].filter(Boolean).join(", ")),
      );
      row.append(text, el("span", { class: "num" }, s.problem ? "not tuned" : gain));
    },
  });
  requestAnimationFrame(() => list.set(searches.length, picked));
  return el("div", { class: "column" }, list.root);
}

function detailOf(recording, search, go) {
  const trials = trialsOf(search),
    scatter = new Scatter(search, trials, (t) => list.pick(rows.indexOf(t)));
  const picked = el("div", { class: "bar note mono" }, "a dot or a row shows its options; a row what it changes");
  const { list, rows } = trialList(trials, (t) => {
    scatter.pick(t);
    picked.textContent = scatter.says(t);
  });
  requestAnimationFrame(() => list.set(rows.length));
  return [
    el(
      "div",
      { class: "bar" },
      el("b", { class: "mono" }, search.kernel),
      el("span", { class: "note" }, `${search.plan}, ${search.stage}, ${percentText(search.share)} of its time`),
      recording.byName.has(search.kernel)
        ? el("button", { onclick: () => go("kernel", search.kernel) }, "the kernel")
        : null,
    ),
    searchFacts(search),
    el(
      "div",
      { class: "search-panes" },
      scatter.root,
      el(
        "div",
        { class: "scroll" },
        el("h3", {}, "The winner's path, times over the heuristic's"),
        wayTo(trials, search),
      ),
    ),
    picked,
    list.root,
  ];
}

export const searchView = {
  id: "search",
  title: "Search",
  render(root, { recording, place, go }) {
    const searches = recording.search ?? [];
    if (!searches.length)
      return root.append(
        empty(
          "This recording has no search. ",
          el("code", {}, "smelt tune --json FILE"),
          " saves one; ",
          el("code", {}, "smelt viz FILE"),
          " shows it, also beside a recording.",
        ),
      );
    const named = searches.findIndex((s) => s.kernel === place[0]),
      at = Math.max(0, Math.min(searches.length - 1, named >= 0 ? named : Number(place[0]) || 0)),
      search = searches[at];
    root.append(
      el(
        "div",
        { class: "split" },
        searchList(searches, at, go),
        el(
          "div",
          { class: "column" },
          search.problem ? empty(`Not tuned: ${search.problem}`) : detailOf(recording, search, go),
        ),
      ),
    );
    return {};
  },
};
