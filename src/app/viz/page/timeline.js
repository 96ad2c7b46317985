// Timeline: workers over time on a canvas, with a brush to zoom; the start as a flame; percentiles of stages; the
// tracks of a trace.
import { countText, el, empty, percentText, stageColour, table, textOn, timeText, tip } from "./dom.js";
import { percentile } from "./data.js";

const kTop = 26,
  kRow = 34,
  kLabel = 74;

// Launches as bars: of each worker while it was busy, or of the device where workers have no clock.
function barsOf(recording, only) {
  const bars = [];
  let end = 1,
    rows = 1;
  for (const run of recording.timeline.runs) {
    if (only >= 0 && run.plan !== only) continue;
    const launches = recording.plans[run.plan].launches;
    let at = run.start;
    run.times.forEach((time, i) => {
      const [kernel, , , layer, stage] = launches[i],
        busy = run.workers;
      rows = Math.max(rows, busy?.length ?? 1);
      for (let w = 0; w < (busy?.length ?? 1); ++w)
        bars.push({
          row: w,
          begin: at,
          end: at + Math.min(time, busy ? busy[w][i] : time),
          all: at + time,
          kernel,
          layer,
          stage: recording.text(stage),
          run,
          i,
        });
      at += time;
    });
    end = Math.max(end, at);
  }
  bars.sort((a, b) => a.row - b.row || a.begin - b.begin);
  const rowsOf = Array.from({ length: rows }, () => []);
  for (const bar of bars) rowsOf[bar.row].push(bar);
  return {
    rows: rowsOf,
    names: rowsOf.map((_, row) => (rows > 1 ? `worker ${row}` : "launches")),
    begin: Math.min(...rowsOf.map((r) => r[0]?.begin ?? Infinity)),
    end,
    label: (bar) => recording.kernels[bar.kernel].name,
    says: (bar) => launchText(recording, bar),
  };
}

function launchText(recording, bar) {
  const waits = bar.all - bar.end,
    what = recording.profileOf(bar.run.plan, bar.kernel)?.what ?? "";
  const tokens = bar.run.tokens > 1 ? `${bar.run.tokens} tokens` : "a token";
  const waiting = waits > 0 ? `, of it ${timeText(waits * 1e-9)} waiting for the others` : "";
  return [
    recording.kernels[bar.kernel].name,
    `${bar.layer >= 0 ? `layer ${bar.layer}, ` : ""}${bar.stage}, ${tokens} at position ${bar.run.position}`,
    timeText((bar.all - bar.begin) * 1e-9) + waiting,
    what,
  ].join("\n");
}

// Events that lie in others below these, as flames: a row for each depth. `tracks`: name, and events [name, category,
// begin, nanoseconds, detail] in the order of their beginnings, as texts.
const kMostDepth = 40,
  kRounding = 10; // nanoseconds by which one that follows another may begin before its end
function flamesOf(tracks) {
  const rows = [],
    names = [];
  let end = 1;
  for (const track of tracks) {
    const open = [],
      first = rows.length;
    for (const [label, stage, begin, time, detail] of track.events) {
      while (open.length && open[open.length - 1] <= begin + kRounding) open.pop();
      const depth = Math.min(open.length, kMostDepth);
      if (!rows[first + depth]) {
        rows.push([]);
        names.push(depth ? "" : track.name);
      }
      rows[first + depth].push({ begin, end: begin + time, all: begin + time, label, stage, detail });
      open.push(begin + time);
      end = Math.max(end, begin + time);
    }
  }
  return {
    rows,
    names,
    begin: 0,
    end,
    label: (bar) => bar.label,
    says: (bar) =>
      [bar.label, bar.stage, timeText((bar.end - bar.begin) * 1e-9), bar.detail].filter(Boolean).join("\n"),
  };
}

function flamesOfTrace(recording) {
  return flamesOf(
    recording.tracks.map(({ name, events }) => ({
      name,
      events: events.map(([label, stage, begin, time, detail]) => [
        recording.text(label),
        recording.text(stage),
        begin,
        time,
        recording.text(detail),
      ]),
    })),
  );
}

function flamesOfStart(stages) {
  const end = stages[stages.length - 1].end;
  const faults = (s) =>
    `${countText(s.minor_faults + s.major_faults)} page faults, ${countText(s.major_faults)} from the disk`;
  const events = stages.map((s) => [s.name, s.name, s.begin * 1e9, (s.end - s.begin) * 1e9, faults(s)]);
  return flamesOf([{ name: "start", events: [["start", "", 0, end * 1e9, ""], ...events] }]);
}

function firstBehind(bars, time) {
  // the first bar that ends behind it
  let low = 0,
    high = bars.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    bars[middle].all <= time ? (low = middle + 1) : (high = middle);
  }
  return low;
}

class Canvas {
  constructor(data, onPick = () => {}) {
    Object.assign(this, { data, onPick });
    this.view = [data.begin, data.end];
    this.canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": "workers over time" });
    this.root = el("div", { class: "timeline" }, this.canvas);
    new ResizeObserver(() => this.draw()).observe(this.root);
    this.listen();
  }

  x(time) {
    return kLabel + ((time - this.view[0]) / (this.view[1] - this.view[0])) * (this.width - kLabel);
  }
  time(x) {
    return this.view[0] + ((x - kLabel) / (this.width - kLabel)) * (this.view[1] - this.view[0]);
  }

  show(begin, end) {
    const span = Math.max(200, Math.min(end - begin, this.data.end - this.data.begin));
    const first = Math.max(this.data.begin, Math.min(begin, this.data.end - span));
    this.view = [first, first + span];
    this.request();
  }

  zoom(factor, at = (this.view[0] + this.view[1]) / 2) {
    this.show(at - (at - this.view[0]) * factor, at + (this.view[1] - at) * factor);
  }
  request() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.draw();
    });
  }

  draw() {
    const ratio = devicePixelRatio || 1,
      { clientWidth: width, clientHeight: height } = this.root;
    this.width = width;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    const c = this.canvas.getContext("2d"),
      style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    c.scale(ratio, ratio);
    c.font = "11px system-ui, sans-serif";
    this.axis(c, width, height, colour);
    this.rowHeight = Math.max(6, Math.min(kRow, (height - kTop - 8) / this.data.rows.length));
    this.data.rows.forEach((bars, row) => this.drawRow(c, bars, row, colour));
    if (this.brush) {
      c.fillStyle = colour("--accent") + "33";
      c.fillRect(Math.min(...this.brush), 0, Math.abs(this.brush[1] - this.brush[0]), height);
    }
  }

  axis(c, width, height, colour) {
    const span = this.view[1] - this.view[0],
      wish = span / Math.max(2, width / 130),
      power = 10 ** Math.floor(Math.log10(wish));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= wish);
    c.fillStyle = colour("--soft");
    c.strokeStyle = colour("--line");
    for (let t = Math.ceil(this.view[0] / step) * step; t <= this.view[1]; t += step) {
      const x = Math.round(this.x(t)) + 0.5;
      c.beginPath();
      c.moveTo(x, 16);
      c.lineTo(x, height);
      c.stroke();
      c.fillText(t > this.data.begin ? timeText((t - this.data.begin) * 1e-9) : "0", x + 3, 12);
    }
  }

  drawRow(c, bars, row, colour) {
    const y = kTop + row * this.rowHeight,
      h = this.rowHeight - (this.rowHeight > 10 ? 4 : 1);
    c.fillStyle = colour("--soft");
    if (this.rowHeight >= 11) c.fillText(this.data.names[row], 8, y + h / 2 + 4, kLabel - 12);
    let drawn = -1;
    for (let i = firstBehind(bars, this.view[0]); i < bars.length && bars[i].begin < this.view[1]; ++i) {
      const bar = bars[i],
        from = Math.max(kLabel, this.x(bar.begin)),
        to = this.x(bar.end),
        all = this.x(bar.all);
      if (all < drawn + 0.5) continue; // nothing smaller than half a pixel
      drawn = all;
      c.fillStyle = colour("--line");
      c.fillRect(Math.max(kLabel, to), y, Math.max(0, all - to), h);
      c.fillStyle = stageColour(bar.stage);
      c.fillRect(from, y, Math.max(0.7, to - from - (to - from > 3 ? 0.7 : 0)), h);
      if (to - from > 60 && h > 12) {
        c.save();
        c.beginPath();
        c.rect(from, y, to - from - 4, h);
        c.clip();
        c.fillStyle = textOn(stageColour(bar.stage));
        c.fillText(this.data.label(bar), from + 4, y + h / 2 + 4);
        c.restore();
      }
    }
  }

  barAt(event) {
    const at = this.canvas.getBoundingClientRect(),
      row = Math.floor((event.clientY - at.top - kTop) / this.rowHeight),
      time = this.time(event.clientX - at.left);
    const bars = this.data.rows[row],
      bar = bars?.[firstBehind(bars, time)];
    return bar && bar.begin <= time ? bar : null;
  }

  listen() {
    const at = (event) => event.clientX - this.canvas.getBoundingClientRect().left;
    this.canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
          this.move((event.deltaX || event.deltaY) / this.width);
        else this.zoom(Math.exp(event.deltaY * 0.002), this.time(at(event)));
      },
      { passive: false },
    );
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this.brush = [at(event), at(event)];
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (this.brush) {
        this.brush[1] = at(event);
        this.request();
        return;
      }
      const bar = this.barAt(event);
      tip(bar ? this.data.says(bar) : "", event);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      const [a, b] = this.brush ?? [0, 0];
      this.brush = null;
      if (Math.abs(a - b) > 5) return this.show(this.time(Math.min(a, b)), this.time(Math.max(a, b)));
      const bar = this.barAt(event);
      if (bar) {
        tip("");
        this.onPick(bar);
      }
      this.request();
    });
    this.canvas.addEventListener("pointerleave", () => tip(""));
    this.canvas.addEventListener("dblclick", () => this.show(this.data.begin, this.data.end));
  }

  move(share) {
    const span = this.view[1] - this.view[0];
    this.show(this.view[0] + share * span, this.view[1] + share * span);
  }

  key(event) {
    const act = {
      "+": () => this.zoom(0.6),
      "=": () => this.zoom(0.6),
      "-": () => this.zoom(1 / 0.6),
      0: () => this.show(this.data.begin, this.data.end),
      ArrowLeft: () => this.move(-0.2),
      ArrowRight: () => this.move(0.2),
    }[event.key];
    act?.();
    return Boolean(act);
  }
}

function start(recording) {
  const stages = recording.start ?? [],
    end = stages[stages.length - 1]?.end ?? 0;
  if (!end) return null;
  return [
    el("h3", {}, `Start: ${timeText(end)}`),
    table(
      [["stage"], ["time", "num"], ["share", "num"], ["page faults", "num"], ["from the disk", "num"]],
      stages.map((s) => ({
        cells: [
          s.name,
          timeText(s.end - s.begin),
          percentText((s.end - s.begin) / end),
          countText(s.minor_faults + s.major_faults),
          countText(s.major_faults),
        ],
      })),
    ),
  ];
}

// Of each stage of a plan over its runs, in the order of the launches.
function percentiles(recording, plan) {
  const runs = recording.runsOf(plan),
    stages = new Map();
  runs.forEach((run, r) =>
    run.times.forEach((time, i) => {
      const stage = recording.text(recording.plans[plan].launches[i][4]);
      if (!stages.has(stage)) stages.set(stage, { sums: new Float64Array(runs.length), busy: 0, spent: 0 });
      const s = stages.get(stage);
      s.sums[r] += time * 1e-9;
      for (const worker of run.workers ?? []) {
        s.busy += Math.min(time, worker[i]);
        s.spent += time;
      }
    }),
  );
  if (!stages.size) return null;
  return [
    el("h3", {}, `${recording.plans[plan].name}: each stage over ${runs.length} runs`),
    table(
      [["stage"], ["least", "num"], ["median", "num"], ["90 %", "num"], ["most", "num"], ["workers wait", "num"]],
      [...stages].map(([stage, s]) => {
        const dot = el("span", {}, "■ ");
        dot.style.color = stageColour(stage);
        return {
          cells: [
            el("span", {}, dot, stage),
            ...[0, 0.5, 0.9, 1].map((p) => timeText(percentile([...s.sums], p))),
            s.spent ? percentText(1 - s.busy / s.spent) : "",
          ],
        };
      }),
    ),
  ];
}

// What there is to choose from, as [id, title].
function kindsOf(recording) {
  const kinds = [];
  if (recording.timeline?.runs.length) {
    for (const p of recording.plans) kinds.push([p.name, p.name]);
    kinds.push(["all", "all runs"]);
  }
  if (recording.start?.length) kinds.push(["start", "the start"]);
  if (recording.tracks?.length) kinds.push(["trace", "the trace"]);
  return kinds;
}

function dataOf(recording, kind, only) {
  if (kind === "start") return flamesOfStart(recording.start);
  return kind === "trace" ? flamesOfTrace(recording) : barsOf(recording, only);
}

export const timelineView = {
  id: "timeline",
  title: "Timeline",
  render(root, { recording, place, go }) {
    const kinds = kindsOf(recording);
    if (!kinds.length)
      return root.append(
        empty(
          "No run was timed. ",
          el("code", {}, "smelt viz"),
          " without ",
          el("code", {}, "--machine"),
          " times some.",
        ),
      );
    const kind = kinds.find(([id]) => id === place[0]) ?? kinds[0];
    const choose = el(
      "select",
      { "aria-label": "what", onchange: (event) => go("timeline", event.target.value) },
      kinds.map(([value, name]) => el("option", { value, selected: value === kind[0] }, name)),
    );
    const only = recording.plans.findIndex((p) => p.name === kind[0]),
      data = dataOf(recording, kind[0], only),
      isRuns = !["start", "trace"].includes(kind[0]);
    const says = isRuns ? "grey: waiting for other workers" : "what lies in another is below it";
    const bar = el(
      "div",
      { class: "bar" },
      choose,
      el("span", { class: "note" }, `drag to zoom, double click for all of it; ${says}`),
    );
    if (!Number.isFinite(data.begin)) return root.append(bar, empty("This plan was not run."));
    const canvas = new Canvas(data, isRuns ? (b) => go("kernel", recording.kernels[b.kernel].name) : undefined);
    canvas.root.style.flex = `0 0 ${Math.min(420, kTop + 14 + data.rows.length * kRow)}px`;
    const tables = !isRuns
      ? null
      : recording.plans.map((_, i) => (only < 0 || i === only ? percentiles(recording, i) : null));
    root.append(
      bar,
      canvas.root,
      el("div", { class: "scroll" }, tables, kind[0] === "trace" ? null : start(recording)),
    );
    return { key: (event) => canvas.key(event) };
  },
};
