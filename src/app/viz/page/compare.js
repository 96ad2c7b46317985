// Compare: two recordings, kernels matched by name or by what they compute, the largest change first.
import { VirtualList, el, empty, timeText } from "./dom.js";

function pairsOf(before, after) {
  const out = [];
  for (const plan of after.profile.plans) {
    const old = before.profile.plans.find((p) => p.name === plan.name);
    if (!old) continue;
    const left = [...old.kernels];
    const take = (fits) => {
      const at = left.findIndex(fits);
      return at < 0 ? null : left.splice(at, 1)[0];
    };
    const partners = plan.kernels.map((k) => take((o) => o.name === k.name));
    plan.kernels.forEach((k, i) => {
      const partner = partners[i] ?? take((o) => o.what === k.what && o.stage === k.stage);
      out.push({
        plan: plan.name,
        name: k.name,
        stage: k.stage,
        what: k.what,
        before: partner?.seconds ?? 0,
        after: k.seconds,
        was: partner,
        now: k,
        renamed: partner && partner.name !== k.name,
      });
    });
    for (const o of left)
      out.push({
        plan: plan.name,
        name: o.name,
        stage: o.stage,
        what: o.what,
        before: o.seconds,
        after: 0,
        was: o,
        now: null,
      });
  }
  return out.sort((a, b) => Math.abs(b.after - b.before) - Math.abs(a.after - a.before));
}

const changeText = (change) =>
  Math.abs(change) < 1e-9 ? "the same" : `${change > 0 ? "+" : "−"}${timeText(Math.abs(change))}`;
const titleOf = (recording) =>
  `${recording.name}, ${recording.threads} ${recording.threads === 1 ? "worker" : "workers"}`;

export const compareView = {
  id: "compare",
  title: "Compare",
  render(root, { recordings, go }) {
    const [before, after] = recordings;
    if (!after)
      return root.append(
        empty(
          "There is one recording. ",
          el("code", {}, "smelt viz BEFORE.json AFTER.json"),
          " shows two side by side.",
        ),
      );
    if (!before.profile || !after.profile) return root.append(empty("These recordings have no times to compare."));
    const pairs = pairsOf(before, after),
      largest = Math.max(1e-12, ...pairs.map((p) => Math.abs(p.after - p.before)));
    const totals = after.profile.plans.map((plan) => {
      const sum = (r) =>
        (r.profile.plans.find((p) => p.name === plan.name)?.kernels ?? []).reduce((s, k) => s + k.seconds, 0);
      const ratio = (sum(before) / sum(after)).toFixed(2);
      return `${plan.name}: ${timeText(sum(before))} → ${timeText(sum(after))}, ${ratio} times as fast`;
    });
    const list = new VirtualList({
      rowHeight: 42,
      label: "changes",
      onPick: (i) => show(pairs[i]),
      fill: (row, i) => {
        const p = pairs[i],
          change = p.after - p.before,
          mark = el("i");
        mark.style.width = `${(Math.abs(change) / largest) * 100}%`;
        mark.style.background = change > 0 ? "var(--bad)" : "var(--string)";
        const text = el(
          "span",
          { class: "main" },
          el("span", { class: "mono" }, p.name),
          el("small", {}, p.renamed ? `  was ${p.was.name}` : !p.was ? "  new" : !p.now ? "  gone" : ""),
          el("br"),
          el("small", {}, `${p.plan}, ${p.stage}: ${p.what}`),
        );
        text.style.lineHeight = "1.35";
        row.append(
          el("span", { class: "share" }, mark),
          text,
          el("span", { class: `num${change > 0 ? " bad" : ""}` }, changeText(change)),
        );
      },
    });
    const detail = el("div", { class: "scroll" });
    const show = (p) => {
      const fact = (name, get) =>
        el("tr", {}, el("td", {}, name), ...[p.was, p.now].map((k) => el("td", { class: "mono" }, k ? get(k) : "—")));
      detail.replaceChildren(
        el("h2", { class: "mono" }, p.name),
        el("p", { class: "note" }, p.what),
        el(
          "table",
          { class: "sides" },
          el("tr", {}, el("th"), el("th", {}, "before"), el("th", {}, "after")),
          fact("time of a run", (k) => timeText(k.seconds)),
          fact("calls", (k) => k.calls.toFixed(1)),
          fact("each", (k) => timeText(k.seconds / Math.max(k.calls, 1e-9))),
          fact("options", (k) => k.options),
          fact("line", (k) => k.lines ?? ""),
        ),
        ...(p.now ? [el("p", {}, el("button", { onclick: () => go("kernel", p.name) }, "the kernel"))] : []),
      );
    };
    root.append(
      el(
        "div",
        { class: "bar" },
        el("b", {}, titleOf(before)),
        "→",
        el("b", {}, titleOf(after)),
        el("span", { class: "note" }, totals.join(";  ")),
      ),
      el("div", { class: "split" }, el("div", { class: "column" }, list.root), el("div", { class: "column" }, detail)),
    );
    requestAnimationFrame(() => {
      list.set(pairs.length, pairs.length ? 0 : -1);
      if (pairs.length) show(pairs[0]);
    });
  },
};
