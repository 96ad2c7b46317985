// Rewrites: the graph of a segment, or a kernel's nest, before and after every pass, with the rules that fired. Nodes
// are interned, so what a pass has changed is exactly the nodes that are new or gone.
import { CodeText } from "./code.js";
import { VirtualList, countText, el, empty } from "./dom.js";

// What passes follow each other: those of a segment, or of a nest of a kernel.
function subjects(recording) {
  const out = recording.segments.map((segment, i) => ({
    key: `s${i}`,
    name: `segment ${i}: ${recording.segmentName(i)}`,
    passes: segment.passes,
  }));
  for (const row of recording.kernelRows())
    if (row.number >= 0)
      out.push({ key: `k${row.number}`, name: `kernel ${row.name}`, passes: recording.kernels[row.number].passes });
  return out;
}

function changes(recording, before, after) {
  const old = recording.below(before?.roots ?? []),
    now = recording.below(after.roots),
    was = new Set(old),
    is = new Set(now);
  const shown = (n) => !recording.isPlainConstant(n);
  return {
    old: old.filter(shown),
    now: now.filter(shown),
    isNew: (n) => before && !was.has(n),
    isGone: (n) => !is.has(n),
  };
}

function pane(recording, title, nodes, mark, onLink) {
  const code = new CodeText({
    lines: nodes.map((n) => recording.nodeText(n)),
    links: nodes,
    marks: nodes.map(mark),
    onLink,
    label: title,
  });
  return { code, root: el("div", { class: "pane" }, el("div", { class: "pane-title" }, title), code.root) };
}

// What the verifier minds, with the way to the node that it is about.
function faultOf(recording, pass, onNode) {
  const n = pass.fault_node;
  return el(
    "div",
    { class: "fault", role: "note" },
    `Verification: ${pass.fault} `,
    n === undefined ? null : el("button", { class: "link", onclick: () => onNode(n) }, `%${n} ${recording.op(n)}`),
  );
}

export const rewritesView = {
  id: "rewrites",
  title: "Rewrites",
  render(root, { recording, place, go }) {
    const all = subjects(recording);
    if (!all.length)
      return root.append(
        empty("This recording has no passes; ", el("code", {}, "smelt viz --json FILE"), " makes one that has."),
      );
    const subject = all.find((s) => s.key === place[0]) ?? all[0];
    const at = Math.max(0, Math.min(subject.passes.length - 1, Number(place[1] ?? 0)));
    const pass = subject.passes[at];
    if (!pass) return root.append(empty("No pass was recorded."));
    const before = at > 0 && subject.passes[at - 1].nest === pass.nest ? subject.passes[at - 1] : null;
    const step = (by) => go("rewrites", subject.key, String(Math.max(0, Math.min(subject.passes.length - 1, at + by))));
    const choose = el(
      "select",
      { "aria-label": "segment or kernel", onchange: (event) => go("rewrites", event.target.value, "0") },
      all.map((s) => el("option", { value: s.key, selected: s === subject }, s.name)),
    );
    choose.style.maxWidth = "34rem";
    root.append(
      el(
        "div",
        { class: "bar" },
        choose,
        el("button", { onclick: () => step(-1), title: "the pass before (←)", disabled: at === 0 }, "←"),
        el("span", { class: "num" }, `${at + 1} of ${subject.passes.length}`),
        el(
          "button",
          { onclick: () => step(1), title: "the next pass (→)", disabled: at === subject.passes.length - 1 },
          "→",
        ),
        el("b", {}, pass.name),
        el("span", { class: "note" }, subject.key[0] === "k" ? `nest ${pass.nest}` : ""),
        el("span", { class: "grow" }),
        subject.key[0] === "k"
          ? el(
              "button",
              { onclick: () => go("kernel", recording.kernels[Number(subject.key.slice(1))].name) },
              "the kernel",
            )
          : null,
      ),
    );

    const passes = new VirtualList({
      rowHeight: 26,
      label: "passes",
      onPick: (i) => go("rewrites", subject.key, String(i)),
      fill: (row, i) => {
        const p = subject.passes[i];
        row.append(
          el(
            "span",
            { class: `main${p.fault ? " bad" : ""}` },
            subject.key[0] === "k" ? `${p.nest} · ${p.name}` : p.name,
          ),
          el("small", { class: "num" }, p.fired ? `${countText(p.fired)} ${p.fired === 1 ? "rule" : "rules"}` : ""),
        );
      },
    });
    const { old, now, isNew, isGone } = changes(recording, before, pass);
    const panes = [];
    const link = (n, from) => panes.forEach((p) => p.code.link(n, p.code !== from));
    if (before)
      panes.push(
        pane(
          recording,
          `before: ${countText(old.length)} nodes, ${countText(old.filter(isGone).length)} go`,
          old,
          (n) => (isGone(n) ? "removed" : ""),
          link,
        ),
      );
    panes.push(
      pane(
        recording,
        before
          ? `after: ${countText(now.length)} nodes, ${countText(now.filter(isNew).length)} are new`
          : `the first form: ${countText(now.length)} nodes`,
        now,
        (n) => `${isNew(n) ? "added" : ""}${n === pass.fault_node ? " at-fault" : ""}`.trim(),
        link,
      ),
    );
    const rules = new VirtualList({
      rowHeight: 58,
      label: "rules that fired",
      onPick: (i) => link(pass.rules[i][2], null),
      fill: (row, i) => {
        const [rule, from, to, times] = pass.rules[i];
        const text = el(
          "span",
          { class: "main" },
          el("b", {}, recording.text(rule)),
          el("small", {}, times > 1 ? `  ${times} times` : ""),
          el("br"),
          el("span", { class: "mono" }, recording.infix(from, 5)),
          el("br"),
          el("span", { class: "mono" }, `→ ${recording.infix(to, 5)}`),
        );
        text.style.lineHeight = "1.3";
        text.title = `${recording.infix(from, 12)}\n→ ${recording.infix(to, 12)}`;
        row.append(text);
      },
    });
    const kept = pass.rules.length,
      told = pass.fired
        ? `${pass.fired === 1 ? "a rule fired" : `${countText(pass.fired)} firings of rules`}; ${kept} different below`
        : before
          ? "no rule fired: the pass itself changes the graph"
          : "no rule fired before this form";
    const left = el("div", { class: "column" }, passes.root, el("div", { class: "bar note" }, told), rules.root);
    passes.root.style.flex = "0 1 40%";
    root.append(
      el(
        "div",
        { class: "split" },
        left,
        el(
          "div",
          { class: "column" },
          pass.fault ? faultOf(recording, pass, (n) => link(n, null)) : null,
          el(
            "div",
            { class: "panes" },
            panes.map((p) => p.root),
          ),
        ),
      ),
    );
    requestAnimationFrame(() => {
      passes.set(subject.passes.length, at);
      rules.set(kept);
      for (const p of panes) {
        const fault = p.code.links.indexOf(pass.fault_node);
        const first = fault >= 0 ? fault : p.code.marks.findIndex(Boolean);
        if (first >= 0) p.code.list.show(first);
      }
    });
    return {
      key: (event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (by) step(by);
        return Boolean(by);
      },
    };
  },
};
