// Model: layers and stages as blocks sized by time and coloured by share of the roofline; below them what a block is
// made of, as launches and as a graph.
import {
  bytesText,
  countText,
  el,
  empty,
  legend,
  percentText,
  rooflineText,
  shareColour,
  svg,
  table,
  timeText,
  tip,
} from "./dom.js";
import { segmentGraph } from "./graph.js";

const kHeight = 150,
  kGap = 2,
  kWidth = 1000;

// Columns in the order of the launches: each layer, and what is in none; in them stages with their launches.
function columnsOf(recording, plan) {
  const columns = [];
  recording.plans[plan].launches.forEach(([kernel, segment, , layer, stageNumber], i) => {
    const stage = recording.text(stageNumber);
    const key = layer < 0 ? `${segment}` : `layer ${layer}`;
    let column = columns[columns.length - 1];
    if (!column || column.key !== key) columns.push((column = { key, layer, segment, seconds: 0, stages: [] }));
    let part = column.stages.find((s) => s.stage === stage);
    if (!part) column.stages.push((part = { stage, seconds: 0, launches: [], bytes: 0, share: 0 }));
    const seconds = recording.plans[plan].seconds[i],
      k = recording.profileOf(plan, kernel);
    column.seconds += seconds;
    part.seconds += seconds;
    part.launches.push(i);
    if (k?.calls) {
      part.bytes += (k.bytes_read + k.bytes_written) / k.calls;
      part.share += (recording.rooflineShare(k) ?? 0) * seconds;
    }
  });
  for (const column of columns)
    for (const part of column.stages) part.share = part.seconds ? part.share / part.seconds : 0;
  return columns;
}

// Below the blocks, where there is room.
const kWidthOfName = 0.012;
function namesOf(columns, total) {
  return el(
    "div",
    { class: "block-names" },
    columns.map((column) => {
      const share = column.seconds / total,
        name = column.layer < 0 ? column.stages[0].stage : `${column.layer}`,
        box = el("span", {}, share < kWidthOfName ? "" : name);
      box.style.width = `${share * 100}%`;
      return box;
    }),
  );
}

function blocks(recording, plan, columns, picked, onPick) {
  const total = columns.reduce((sum, c) => sum + c.seconds, 0) || 1;
  const drawing = svg("svg", {
    viewBox: `0 0 ${kWidth} ${kHeight}`,
    preserveAspectRatio: "none",
    height: kHeight,
    role: "img",
    "aria-label": "layers and stages by time",
  });
  let x = 0;
  for (const column of columns) {
    const width = (column.seconds / total) * kWidth;
    let y = 0;
    for (const part of column.stages) {
      const height = (part.seconds / column.seconds) * kHeight,
        is = picked.column === column && picked.part === part;
      const says = [
        column.layer < 0 ? part.stage : `layer ${column.layer}, ${part.stage}`,
        `${timeText(part.seconds)}, ${percentText(part.seconds / total)} of the time`,
        `${bytesText(part.bytes)}, roofline: ${rooflineText(part.share)}`,
      ].join("\n");
      drawing.append(
        svg("rect", {
          x,
          y,
          width: Math.max(width - (width > 4 ? 0.5 : 0), 0.5),
          height: Math.max(0.5, height - kGap / 4),
          fill: shareColour(part.share),
          class: is ? "picked" : "",
          onclick: () => onPick(column, part),
          onmousemove: (event) => tip(says, event),
          onmouseleave: () => tip(""),
        }),
      );
      y += height;
    }
    x += width;
  }
  return el("div", { class: "blocks" }, drawing, namesOf(columns, total));
}

function facts(recording, plan) {
  const p = recording.profile?.plans.find((q) => q.name === recording.profileName(plan));
  if (!p) return null;
  const tokens = p.tokens || 1,
    fact = (name, value) => el("div", {}, el("small", {}, name), value);
  const bytes = p.kernels.reduce((sum, k) => sum + k.bytes_read + k.bytes_written, 0);
  return el(
    "div",
    { class: "facts" },
    fact(recording.estimated ? "estimated" : "measured", `${timeText(p.seconds)} a run`),
    fact("tokens a second", countText(tokens / p.seconds)),
    fact("bytes", bytesText(bytes)),
    fact("of the bandwidth", rooflineText(bytes / p.seconds / recording.profile.machine.bytes_per_second)),
    fact("kernels", String(p.kernels.length)),
  );
}

export const modelView = {
  id: "model",
  title: "Model",
  render(root, { recording, place, go }) {
    if (!recording.plans.length) return renderProfile(root, recording);
    const plan = Math.max(
      0,
      recording.plans.findIndex((p) => p.name === (place[0] ?? "decode")),
    );
    const columns = columnsOf(recording, plan);
    const picked = { column: null, part: null };
    const chosen = place[1] ? place[1].split(".") : null;
    if (chosen) {
      picked.column = columns[Number(chosen[0])];
      picked.part = picked.column?.stages[Number(chosen[1])];
    }
    picked.column ??= columns.find((c) => c.layer >= 0 && c.stages.length > 1) ?? columns[0];
    if (!picked.column) return root.append(empty("This plan launches nothing."));
    const pick = (column, part) =>
      go("model", recording.plans[plan].name, `${columns.indexOf(column)}.${column.stages.indexOf(part)}`);
    const choose = el(
      "select",
      { "aria-label": "plan", onchange: (event) => go("model", event.target.value) },
      recording.plans.map((p, i) => el("option", { value: p.name, selected: i === plan }, p.name)),
    );
    root.append(
      el("div", { class: "bar" }, choose, facts(recording, plan), el("span", { class: "grow" }), legend()),
      blocks(recording, plan, columns, picked, pick),
    );

    const steps = columns.flatMap((column) => column.stages.map((part) => [column, part]));
    const move = (by) => {
      const at = steps.findIndex(([c, p]) => c === picked.column && p === (picked.part ?? picked.column.stages[0]));
      const next = steps[Math.max(0, Math.min(steps.length - 1, at + by))];
      if (next) pick(...next);
    };
    const launches = picked.part ? picked.part.launches : picked.column.stages.flatMap((part) => part.launches);
    const layer = picked.column.layer < 0 ? "" : `layer ${picked.column.layer}, `;
    const where = layer + (picked.part ? picked.part.stage : "all stages");
    const rows = launches.map((i) => {
      const [kernel, , , , , lines] = recording.plans[plan].launches[i],
        k = recording.profileOf(plan, kernel),
        seconds = recording.plans[plan].seconds[i];
      const share = recording.rooflineShare(k);
      return {
        go: () => go("kernel", recording.kernels[kernel].name),
        title: k?.what ?? "",
        cells: [
          recording.kernels[kernel].name,
          recording.text(lines),
          timeText(seconds),
          share === null ? "" : rooflineText(share),
        ],
      };
    });
    const segment = recording.segments[picked.column.segment];
    root.append(
      el(
        "div",
        { class: "split wide" },
        el(
          "div",
          { class: "column" },
          el(
            "div",
            { class: "scroll" },
            el("h2", {}, where),
            el(
              "p",
              { class: "note" },
              "Launches in order. ",
              el(
                "button",
                { class: "link", onclick: () => go("schedule", String(picked.column.segment)) },
                "why these kernels",
              ),
            ),
            table([["kernel", "mono"], ["line"], ["time", "num"], ["roofline", "num"]], rows),
          ),
        ),
        el(
          "div",
          { class: "column" },
          segmentGraph(recording, segment, { onKernel: (k) => go("kernel", recording.kernels[k].name) }),
        ),
      ),
    );
    return {
      key: (event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (by) move(by);
        return Boolean(by);
      },
    };
  },
};

// Of a saved profile there is nothing but times.
function renderProfile(root, recording) {
  if (!recording.profile) return root.append(empty("This recording has no model."));
  const scroll = el("div", { class: "scroll" });
  for (const plan of recording.profile.plans) {
    const total = plan.kernels.reduce((sum, k) => sum + k.seconds, 0);
    scroll.append(el("h2", {}, `${plan.name}: ${timeText(total)}`));
    for (const [name, parts] of [
      ["stage", plan.stages],
      ["layer", plan.layers],
    ])
      scroll.append(
        table(
          [[name], ["time", "num"], ["share", "num"], ["bytes", "num"]],
          parts.map((p) => ({
            cells: [p.name, timeText(p.seconds), percentText(p.seconds / total), bytesText(p.bytes)],
          })),
        ),
      );
  }
  root.append(scroll);
}
