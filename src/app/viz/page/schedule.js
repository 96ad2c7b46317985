// Schedule: which tensors of a segment got memory and why, which kernels fused what, how long buffers live.
import { bytesText, el, empty, stageColour, svg, table, timeText } from "./dom.js";

const kPlaces = { memory: "memory", chip: "on chip", tile: "in its tile", again: "again" },
  kOrder = Object.keys(kPlaces);

function arena(segment) {
  if (!segment.temps.length) return el("p", { class: "note" }, "Nothing passes between kernels through memory.");
  const width = 640,
    row = 22,
    height = 180,
    columns = segment.kernels.length,
    step = width / columns;
  const drawing = svg("svg", { width, height: height + row, role: "img", "aria-label": "buffers of the arena" });
  segment.temps.forEach(([offset, bytes, first, last], i) => {
    if (!bytes) return;
    const y = (offset / segment.arena) * height,
      h = Math.max(2, (bytes / segment.arena) * height);
    drawing.append(
      svg(
        "rect",
        {
          x: first * step + 1,
          y,
          width: (last - first + 1) * step - 2,
          height: h,
          rx: 2,
          fill: stageColour(`temp ${i % 9}`),
        },
        svg(
          "title",
          {},
          `temp ${i}: ${bytesText(bytes)} at ${offset}, written by kernel ${first}, last read by kernel ${last}`,
        ),
      ),
    );
  });
  for (let k = 0; k < columns; ++k)
    drawing.append(svg("text", { x: (k + 0.5) * step, y: height + 14, "text-anchor": "middle" }, String(k)));
  return el("div", { class: "arena" }, drawing);
}

function kernelTable(recording, s, go) {
  const times = [[recording.estimated ? "estimated" : "measured", "num"]];
  if (recording.estimate) times.push(["estimated", "num"]);
  const segment = recording.segments[s],
    plan = Math.max(
      0,
      recording.plans.findIndex((p) => p.launches.some((launch) => launch[1] === s)),
    );
  return table(
    [
      ["", "num"],
      ["kernel", "mono"],
      ["tensors that it makes"],
      ["bytes", "num"],
      ...times,
    ],
    segment.kernels.map((number, k) => {
      const at = recording.plans[plan].launches.findIndex((launch) => launch[1] === s && launch[2] === k);
      const profile = recording.profileOf(plan, number),
        estimate = recording.estimateOf(plan, number);
      const made = [
        ...new Set(segment.items.filter((item) => item[2] === k).map(([n]) => recording.line(n) || recording.op(n))),
      ];
      return {
        go: () => go("kernel", recording.kernels[number].name),
        title: profile?.what ?? "",
        cells: [
          String(k),
          recording.kernels[number].name,
          made.join(", "),
          profile?.calls ? bytesText((profile.bytes_read + profile.bytes_written) / profile.calls) : "",
          at >= 0 && recording.plans[plan].seconds[at] ? timeText(recording.plans[plan].seconds[at]) : "",
          estimate?.calls ? timeText(estimate.seconds / estimate.calls) : "",
        ].slice(0, 4 + times.length),
      };
    }),
  );
}

export const scheduleView = {
  id: "schedule",
  title: "Schedule",
  render(root, { recording, place, go }) {
    if (!recording.segments.length) return root.append(empty("This recording has no schedule."));
    const s = Math.max(
        0,
        Math.min(recording.segments.length - 1, Number(place[0] ?? Math.min(1, recording.segments.length - 1)) || 0),
      ),
      segment = recording.segments[s];
    const choose = el(
      "select",
      { "aria-label": "segment", onchange: (event) => go("schedule", event.target.value) },
      recording.segments.map((_, i) =>
        el("option", { value: i, selected: i === s }, `segment ${i}: ${recording.segmentName(i)}`),
      ),
    );
    const search = el("input", {
      type: "search",
      class: "search",
      placeholder: "search tensors  /",
      "aria-label": "search tensors",
    });
    const bufferOf = new Map(segment.items.map(([n, buffer, kernel]) => [n, [recording.text(buffer), kernel]]));
    const orderOf = ([, where]) => kOrder.indexOf(recording.text(where)),
      inOrder = [...segment.places].sort((a, b) => orderOf(a) - orderOf(b));
    const places = el("div");
    const draw = () => {
      const wanted = search.value.trim().toLowerCase();
      const rows = inOrder
        .map(([n, where, why]) => {
          const kind = recording.text(where),
            [buffer = "", kernel = ""] = bufferOf.get(n) ?? [];
          return {
            text: `${recording.op(n)} ${recording.line(n)} ${kPlaces[kind]} ${recording.text(why)}`.toLowerCase(),
            title: recording.nodeText(n),
            cells: [
              `%${n} ${recording.op(n)}`,
              `${recording.dtype(n)} ${recording.shapeText(n)}`,
              recording.line(n),
              el("span", { class: `badge ${kind}` }, kPlaces[kind] ?? kind),
              `${buffer}`,
              String(kernel),
              recording.text(why),
            ],
          };
        })
        .filter((row) => !wanted || row.text.includes(wanted));
      places.replaceChildren(
        table(
          [["tensor", "mono"], ["shape", "mono"], ["line"], ["place"], ["buffer", "mono"], ["kernel", "num"], ["why"]],
          rows,
        ),
      );
    };
    search.addEventListener("input", draw);
    root.append(
      el(
        "div",
        { class: "bar" },
        choose,
        el("span", { class: "note" }, `${segment.kernels.length} kernels, arena ${bytesText(segment.arena)}`),
        el("span", { class: "grow" }),
        el("button", { onclick: () => go("rewrites", `s${s}`) }, "its rewrites"),
        search,
      ),
      el(
        "div",
        { class: "scroll" },
        el("h3", {}, "Kernels"),
        kernelTable(recording, s, go),
        el("h3", {}, "Buffers in the arena, over kernels"),
        arena(segment),
        el("h3", {}, "Tensors that could have a place"),
        places,
      ),
    );
    draw();
  },
};
