// The graph of a segment: nodes folded by the line of the model that made them, shapes on the arrows; a click unfolds a
// group into its nodes. Wheel or + and - zoom, dragging moves, / searches.
import { bytesText, el, svg } from "./dom.js";
import { placeLayers } from "./layout.js";

const kMostBoxes = 900;
const kEnds = new Set(["output", "write"]),
  kLeaves = new Set(["param", "const", "iota", "var"]);

// What has no line of its own is made for the first that reads it.
function linesOf(recording, nodes) {
  const lines = new Map();
  for (const n of [...nodes].reverse()) {
    if (recording.line(n)) lines.set(n, recording.line(n));
    const mine = lines.get(n) ?? "";
    for (const s of recording.sources(n)) if (!lines.has(s) && !recording.line(s)) lines.set(s, mine);
  }
  return lines;
}

// Which tensors depend on more than weights and constants: these are boxes. What dequantises a weight is part of
// those that read it, under the weight's name.
function flowOf(recording, segment, nodes) {
  const moving = new Set(),
    weightsOf = new Map();
  for (const n of nodes) {
    const weights = new Set();
    let moves = kEnds.has(recording.op(n));
    for (const s of recording.sources(n)) {
      const slot = recording.op(s) === "param" ? segment.slots[recording.argument(s)] : null;
      if (slot?.format) weights.add(slot);
      moves ||= moving.has(s) || Boolean(slot && !slot.format);
      if (!moving.has(s)) for (const weight of weightsOf.get(s) ?? []) weights.add(weight);
    }
    if (moves) moving.add(n);
    weightsOf.set(n, weights);
  }
  return { moving, weightsOf };
}

// A line of a helper makes tensors in many places: those that are connected are one part, known by its first node.
function partsOf(recording, nodes, lineOf) {
  const parent = new Map(nodes.map((n) => [n, n]));
  const first = (n) => {
    while (parent.get(n) !== n) {
      parent.set(n, parent.get(parent.get(n)));
      n = parent.get(n);
    }
    return n;
  };
  for (const n of nodes)
    for (const s of recording.sources(n)) {
      if (!parent.has(s) || lineOf.get(s) !== lineOf.get(n)) continue;
      const [a, b] = [first(s), first(n)];
      parent.set(Math.max(a, b), Math.min(a, b));
    }
  return new Map(nodes.map((n) => [n, first(n)]));
}

// Groups of tensors: by part of a line, and by number where there is no line or the part is open.
function groupsOf(recording, segment, open) {
  const pass = segment.passes.filter((p) => p.name !== "kernels").pop();
  const kernelOf = new Map(segment.items.map(([node, , kernel]) => [node, kernel]));
  const groups = new Map(),
    groupOf = new Map(),
    edges = new Map();
  const nodes = recording
    .below(pass?.roots ?? [])
    .filter((n) => (recording.isTensor(n) || kEnds.has(recording.op(n))) && !kLeaves.has(recording.op(n)));
  const lineOf = linesOf(recording, nodes);
  const { moving, weightsOf } = flowOf(recording, segment, nodes);
  const partOf = partsOf(
    recording,
    nodes.filter((n) => moving.has(n)),
    lineOf,
  );
  for (const n of nodes) {
    if (!moving.has(n)) continue;
    const line = lineOf.get(n),
      part = `${line}#${partOf.get(n)}`;
    const key = line && !open.has(part) ? part : `%${n}`;
    if (!groups.has(key)) groups.set(key, { key, line, part, nodes: [], weights: [], inputs: [], kernels: new Set() });
    const group = groups.get(key);
    group.nodes.push(n);
    groupOf.set(n, key);
    if (kernelOf.has(n)) group.kernels.add(kernelOf.get(n));
    for (const weight of weightsOf.get(n) ?? []) if (!group.weights.includes(weight)) group.weights.push(weight);
    for (const s of recording.sources(n)) {
      if (recording.op(s) === "param") {
        const slot = segment.slots[recording.argument(s)];
        if (slot && !slot.format && !group.inputs.includes(slot)) group.inputs.push(slot);
      } else if (groupOf.has(s) && groupOf.get(s) !== key) {
        edges.set(`${groupOf.get(s)} > ${key}`, { from: groupOf.get(s), to: key, node: s });
      }
    }
  }
  return { groups: [...groups.values()], edges: [...edges.values()] };
}

// "2 reduce_sum, mul": what the group does, movement left out unless there is nothing else.
function summary(recording, nodes) {
  const counts = new Map();
  const telling = nodes.filter((n) => !recording.isMove(n) && !["cast", "bitcast"].includes(recording.op(n)));
  for (const n of telling.length ? telling : nodes) counts.set(recording.op(n), (counts.get(recording.op(n)) ?? 0) + 1);
  const names = [...counts].sort((a, b) => b[0].startsWith("reduce") - a[0].startsWith("reduce") || b[1] - a[1]);
  return (
    names
      .slice(0, 4)
      .map(([op, count]) => (count > 1 ? `${count} ${op}` : op))
      .join(", ") + (names.length > 4 ? " …" : "")
  );
}

function boxOf(recording, group, kernelNames) {
  const lines = [
    [
      group.nodes.length > 1 || !group.line ? group.line || `%${group.nodes[0]}` : `${group.line}  %${group.nodes[0]}`,
      "",
    ],
  ];
  lines.push([summary(recording, group.nodes), "soft"]);
  for (const w of group.weights.slice(0, 4))
    lines.push([`${w.name.replace(/\.weight$/, "")}  ${w.format}  ${bytesText(w.bytes)}`, "weight"]);
  if (group.inputs.length) lines.push([`of ${group.inputs.map((slot) => slot.name).join(", ")}`, "soft"]);
  for (const k of group.kernels) lines.push([`▸ kernel ${k}: ${kernelNames[k]}`, "soft"]);
  const width = Math.min(330, 22 + Math.max(...lines.map(([text, kind]) => text.length * (kind ? 5.9 : 7))));
  return { ...group, lines, width, height: 12 + lines.length * 16 };
}

export function segmentGraph(recording, segment, { onKernel }) {
  const open = new Set();
  const surface = svg("svg", { role: "img", "aria-label": "graph of the segment", tabindex: "0" });
  const layer = svg("g");
  surface.append(layer);
  const search = el("input", {
    type: "search",
    placeholder: "search  /",
    "aria-label": "search in the graph",
    class: "search",
  });
  const button = (text, title, act) => el("button", { title, onclick: act }, text);
  const root = el(
    "div",
    { class: "graph" },
    surface,
    el(
      "div",
      { class: "tools" },
      search,
      button("+", "closer (+)", () => zoom(1.3)),
      button("−", "further (−)", () => zoom(1 / 1.3)),
      button("all", "all of it (0)", () => fit()),
    ),
  );
  let boxes = [],
    size = [1, 1],
    view = { x: 0, y: 0, scale: 1 };
  const names = segment.kernels.map((k) => recording.kernels[k]?.name ?? "");

  const apply = () => layer.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
  const zoom = (factor, x = surface.clientWidth / 2, y = surface.clientHeight / 2) => {
    const scale = Math.max(0.05, Math.min(3, view.scale * factor)),
      ratio = scale / view.scale;
    view = { scale, x: x - (x - view.x) * ratio, y: y - (y - view.y) * ratio };
    apply();
  };
  const fit = (least = 0.1) => {
    const w = surface.clientWidth || 800,
      h = surface.clientHeight || 500;
    const scale = Math.max(least, Math.min(1, (w - 40) / size[0], (h - 40) / size[1]));
    view = { scale, x: (w - size[0] * scale) / 2, y: Math.max(20, (h - size[1] * scale) / 2) };
    apply();
  };

  function draw() {
    const { groups, edges } = groupsOf(recording, segment, open);
    layer.replaceChildren();
    if (groups.length > kMostBoxes) {
      layer.append(svg("text", { x: 20, y: 30 }, `${groups.length} boxes are too many to draw; fold some lines`));
      return;
    }
    boxes = groups.map((group) => boxOf(recording, group, names));
    const number = new Map(boxes.map((box, i) => [box.key, i]));
    size = placeLayers(
      boxes,
      edges.map(({ from, to }) => [number.get(from), number.get(to)]),
    );
    for (const { from, to, node } of edges)
      layer.append(...arrow(boxes[number.get(from)], boxes[number.get(to)], recording.shapeText(node)));
    for (const box of boxes) layer.append((box.element = element(box)));
    find();
  }

  function arrow(a, b, text) {
    const down = b.y >= a.y,
      x1 = a.x,
      y1 = a.y + (down ? a.height : -a.height) / 2,
      x2 = b.x,
      y2 = b.y - (down ? b.height : -b.height) / 2;
    const bend = Math.max(18, Math.abs(y2 - y1) / 2) * (down ? 1 : -1),
      tip = down ? -6 : 6;
    return [
      svg("path", { d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}` }),
      svg("path", { class: "head", d: `M${x2} ${y2}l-3.5 ${tip}h7z` }),
      svg(
        "text",
        { class: "edge", x: x1 + (x2 - x1) * 0.75, y: y1 + (y2 - y1) * 0.75 + 3, "text-anchor": "middle" },
        text,
      ),
    ];
  }

  function element(box) {
    const g = svg(
      "g",
      {
        class: `box${box.kernels.size ? " kernel" : ""}${open.has(box.part) ? " open" : ""}`,
        tabindex: "0",
        transform: `translate(${box.x - box.width / 2} ${box.y - box.height / 2})`,
      },
      svg("rect", { width: box.width, height: box.height, rx: 6 }),
    );
    box.lines.forEach(([text, kind], i) => {
      const line = svg(
        "text",
        { x: 10, y: 20 + i * 16, class: kind },
        text.length > 54 ? `${text.slice(0, 53)}…` : text,
      );
      if (text.startsWith("▸"))
        line.addEventListener("click", (event) => {
          event.stopPropagation();
          onKernel(segment.kernels[[...box.kernels][i - (box.lines.length - box.kernels.size)]]);
        });
      g.append(line);
    });
    const toggle = () => {
      if (!box.line) return;
      open.has(box.part) ? open.delete(box.part) : open.add(box.part);
      draw();
    };
    g.append(
      svg(
        "title",
        {},
        box.nodes
          .slice(0, 12)
          .map((n) => recording.nodeText(n))
          .join("\n"),
      ),
    );
    g.addEventListener("click", () => moved || toggle());
    g.addEventListener("keydown", (event) => event.key === "Enter" && toggle());
    return g;
  }

  function find() {
    const wanted = search.value.trim().toLowerCase();
    let first = null;
    for (const box of boxes) {
      const is = wanted && box.lines.some(([text]) => text.toLowerCase().includes(wanted));
      box.element?.classList.toggle("found", Boolean(is));
      box.element?.classList.toggle("dim", Boolean(wanted) && !is);
      if (is) first ??= box;
    }
    if (!first) return;
    view.x = surface.clientWidth / 2 - first.x * view.scale;
    view.y = surface.clientHeight / 2 - first.y * view.scale;
    apply();
  }
  search.addEventListener("input", find);

  let drag = null,
    moved = false;
  surface.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const at = surface.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - at.left, event.clientY - at.top);
    },
    { passive: false },
  );
  surface.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX - view.x, y: event.clientY - view.y, at: [event.clientX, event.clientY] };
    moved = false;
  });
  surface.addEventListener("pointermove", (event) => {
    if (!drag || !event.buttons) {
      drag = null;
      return;
    }
    moved ||= Math.hypot(event.clientX - drag.at[0], event.clientY - drag.at[1]) > 4;
    view.x = event.clientX - drag.x;
    view.y = event.clientY - drag.y;
    apply();
  });
  surface.addEventListener("keydown", (event) => {
    const act = {
      "+": () => zoom(1.3),
      "-": () => zoom(1 / 1.3),
      0: () => fit(),
      ArrowUp: () => {
        view.y += 60;
        apply();
      },
      ArrowDown: () => {
        view.y -= 60;
        apply();
      },
      ArrowLeft: () => {
        view.x += 60;
        apply();
      },
      ArrowRight: () => {
        view.x -= 60;
        apply();
      },
    }[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  });
  draw();
  requestAnimationFrame(() => fit(0.55));
  return root;
}
