// Kernel: what it computes, its options and why others were refused, and its texts side by side.
import { CodeText, assemblyLinks, hotLines, programLinks, sourceLinks } from "./code.js";
import { VirtualList, bytesText, el, empty, percentText, rooflineText, table, timeText } from "./dom.js";
import { whatIf } from "./whatif.js";

let forms = ["program", "source"];
let filter = "";

export function kernelList(recording, picked, onPick) {
  const all = recording.kernelRows();
  let rows = all;
  const search = el("input", {
    type: "search",
    class: "search",
    placeholder: `search ${all.length} kernels  /`,
    "aria-label": "search kernels",
    value: filter,
  });
  const never = recording.profile ? "not launched in these runs" : "";
  const list = new VirtualList({
    rowHeight: 40,
    label: "kernels",
    onPick: (i) => onPick(rows[i].name),
    fill: (row, i) => {
      const k = rows[i],
        fill = el("i");
      fill.style.width = `${Math.min(100, k.share * 100)}%`;
      const what = k.uses[0]?.stage ? `${k.uses[0].stage}: ${k.uses[0].what}` : never;
      const texts = el(
        "span",
        { class: "main" },
        el("span", { class: "mono" }, k.name),
        el("br"),
        el("small", {}, what),
      );
      texts.style.lineHeight = "1.35";
      row.append(
        el("span", { class: "share", title: percentText(k.share) }, fill),
        texts,
        el("small", { class: "num" }, k.uses.length ? percentText(k.share) : ""),
      );
    },
  });
  const apply = () => {
    filter = search.value;
    const wanted = filter.trim().toLowerCase();
    rows = all.filter(
      (k) =>
        !wanted ||
        k.name.toLowerCase().includes(wanted) ||
        k.uses.some((u) => `${u.stage} ${u.what} ${u.lines}`.toLowerCase().includes(wanted)),
    );
    list.set(
      rows.length,
      rows.findIndex((k) => k.name === picked),
    );
  };
  search.addEventListener("input", apply);
  requestAnimationFrame(apply);
  return el("div", { class: "column" }, el("div", { class: "bar" }, search), list.root);
}

function uses(recording, row) {
  return table(
    [
      ["plan"],
      ["part"],
      ["calls", "num"],
      ["each", "num"],
      ["share", "num"],
      ["roofline", "num"],
      ...(recording.estimate ? [["estimate", "num"]] : []),
      ["lines"],
    ],
    row.uses.map((u) => {
      const share = recording.rooflineShare(u),
        e = recording.estimates.get(u.plan)?.get(row.name);
      return {
        cells: [
          u.plan,
          u.stage,
          u.calls.toFixed(1),
          timeText(u.seconds / u.calls),
          percentText(u.share),
          share === null ? "" : rooflineText(share),
          ...(recording.estimate ? [e?.calls ? timeText(e.seconds / e.calls) : ""] : []),
          u.lines,
        ],
      };
    }),
  );
}

function argumentsOf(recording, number) {
  for (const segment of recording.segments) {
    const at = segment.kernels.indexOf(number);
    if (at >= 0) return segment.buffers[at];
  }
  return [];
}

function aboutOptions(recording, kernel) {
  const parts = [];
  kernel.options.forEach((options, nest) => {
    parts.push(el("h3", {}, `nest ${nest}`), el("code", {}, options || "no options"));
    if (kernel.heuristic && kernel.heuristic[nest] !== options)
      parts.push(
        el("p", { class: "note" }, "tuned; the heuristic chooses ", el("code", {}, kernel.heuristic[nest] || "none")),
      );
    const tried = kernel.tried.filter(([n]) => n === nest);
    const rows = tried.map(([, option, why]) => ({
      cells: [el("code", {}, recording.text(option)), why ? recording.text(why) : "taken"],
    }));
    if (rows.length) parts.push(table([["tried"], ["what became of it"]], rows));
  });
  return el("div", { class: "scroll" }, parts);
}

// `shown`: the texts to show, of the kernel as it is or with other options; `onShow`: given others.
function panesOf(recording, kernel, shown, onShow) {
  const lines = {
    program: shown.program.split("\n"),
    source: shown.source.split("\n"),
    assembly: shown.assembly.split("\n"),
    formulas: recording.formulas(kernel.tree),
  };
  const made = [];
  const link = (number, from) => made.forEach((text) => text.link(number, text !== from));
  const text = (form, links, marks = []) => {
    const code = new CodeText({ lines: lines[form], links, marks, label: form, onLink: links.length ? link : null });
    made.push(code);
    return code.root;
  };
  const make = {
    formulas: () => text("formulas", []),
    options: () => aboutOptions(recording, kernel),
    whatif: () => whatIf(kernel, onShow),
    program: () => text("program", programLinks(lines.program), hotLines(lines.program)),
    source: () =>
      shown.source
        ? text("source", sourceLinks(lines.source))
        : empty("No renderer writes source for this machine yet."),
    assembly: () =>
      shown.assembly ? text("assembly", assemblyLinks(shown, lines.source)) : empty("There is no assembly."),
  };
  const titles = {
    formulas: "Formulas",
    options: "Options",
    whatif: "What if",
    program: "Loop program, innermost loops marked",
    source: kernel.source_language ?? "LLVM IR",
    assembly: kernel.assembly_language === "PTX" ? "PTX" : "Assembly",
  };
  return { make, titles };
}

export const kernelView = {
  id: "kernel",
  title: "Kernel",
  render(root, { recording, place, go }) {
    const rows = recording.kernelRows();
    if (!rows.length) return root.append(empty("This recording has no kernels."));
    const row = rows.find((k) => k.name === place[0]) ?? rows[0];
    const detail = el("div", { class: "column" });
    root.append(
      el(
        "div",
        { class: "split" },
        kernelList(recording, row.name, (name) => go("kernel", name)),
        detail,
      ),
    );
    const advice = [...new Set(row.uses.flatMap((u) => u.advice ?? []))];
    const head = el(
      "div",
      { class: "scroll" },
      el("h2", { class: "mono" }, row.name),
      el("p", { class: "note" }, row.uses[0]?.what ?? ""),
      row.uses.length ? uses(recording, row) : null,
      advice.map((text) => el("p", { class: "bad" }, text)),
    );
    head.style.flex = "0 1 auto";
    head.style.maxHeight = "38%";
    detail.append(head);
    if (row.number < 0)
      return detail.append(
        empty(
          "A profile has no texts of kernels; record the model with ",
          el("code", {}, "smelt viz --json FILE"),
          ".",
        ),
      );
    const kernel = recording.kernels[row.number];
    let shown = kernel;
    const buffers = argumentsOf(recording, row.number);
    if (buffers.length)
      head.append(
        el(
          "p",
          { class: "note" },
          buffers
            .map(
              (b, i) =>
                `param${i} = ${b.name}${b.format ? ` ${b.format}` : ""}${b.bytes ? ` ${bytesText(b.bytes)}` : ""}`,
            )
            .join(",  "),
        ),
      );
    const panes = el("div", { class: "panes" }),
      toggles = el("div", { class: "toggles", role: "group", "aria-label": "forms" });
    const others = el("button", { onclick: () => show(kernel) }, "back to the texts as they are");
    const show = (texts) => {
      shown = texts;
      draw();
    };
    const draw = () => {
      const { make, titles } = panesOf(recording, kernel, shown, show);
      others.hidden = shown === kernel;
      panes.replaceChildren(
        ...Object.keys(make)
          .filter((form) => forms.includes(form))
          .map((form) => el("div", { class: "pane" }, el("div", { class: "pane-title" }, titles[form]), make[form]())),
      );
      toggles.replaceChildren(
        ...Object.keys(make).map((form) =>
          el(
            "button",
            {
              "aria-pressed": String(forms.includes(form)),
              onclick: () => {
                forms = forms.includes(form) ? forms.filter((f) => f !== form) : [...forms, form];
                draw();
              },
            },
            titles[form].split(",")[0],
          ),
        ),
      );
    };
    detail.append(
      el(
        "div",
        { class: "bar" },
        toggles,
        others,
        el("span", { class: "grow" }),
        el("span", { class: "note" }, "click a line to see where it went"),
        el("button", { onclick: () => go("rewrites", `k${row.number}`) }, "its rewrites"),
        recording.search?.some((s) => s.kernel === row.name)
          ? el("button", { onclick: () => go("search", row.name) }, "its search")
          : null,
      ),
      panes,
    );
    draw();
  },
};
