// A text of many lines, of which only those in sight are drawn, with names that link lines to those of other texts.
import { VirtualList, el } from "./dom.js";

const kKeywords =
  "define|ret|br|label|phi|load|store|loop|end|acc|set|get|for|call|declare|attributes|" +
  "program|buffer|const|icmp|select";
// texts, remarks, names, numbers, words of the language
const kWords = new RegExp(
  [
    String.raw`("[^"]*")`,
    String.raw`((?:^|\s)(?:#|;|\/\/).*$)`,
    String.raw`(%[\w.]+|@[\w.]+)`,
    String.raw`\b(\d[\w.]*)\b`,
    String.raw`\b(${kKeywords})\b`,
  ].join("|"),
  "g",
);

function coloured(row, text) {
  let at = 0;
  for (const match of text.matchAll(kWords)) {
    const kind = match[1] ? "str" : match[2] ? "rem" : match[4] ? "nr" : match[5] ? "key" : "";
    if (!kind) continue;
    row.append(text.slice(at, match.index), el("span", { class: kind }, match[0]));
    at = match.index + match[0].length;
  }
  row.append(text.slice(at));
}

// `marks`: a class for each line, or nothing. `links`: for each line the number that it shares with lines elsewhere.
export class CodeText {
  constructor({ lines, marks = [], links = [], onLink = null, label = "" }) {
    Object.assign(this, { lines, marks, links });
    this.linked = null;
    const longest = lines.reduce((most, line) => Math.max(most, line.length), 0);
    this.list = new VirtualList({
      rowHeight: 18,
      className: "code mono",
      label,
      onPick: onLink ? (i) => this.links[i] !== undefined && onLink(this.links[i], this) : null,
      fill: (row, i) => this.fill(row, i),
    });
    this.list.space.style.width = `${longest * 7.3 + 80}px`;
    this.list.set(lines.length);
    this.root = this.list.root;
  }

  fill(row, i) {
    if (this.marks[i]) row.className += ` ${this.marks[i]}`;
    if (this.linked !== null && this.links[i] === this.linked) row.classList.add("linked");
    row.append(el("span", { class: "at" }, String(i + 1)));
    coloured(row, this.lines[i]);
  }

  // Marks the lines of a link; brings the first of them into sight.
  link(number, scroll) {
    this.linked = number;
    this.list.refresh();
    const first = this.links.indexOf(number);
    if (scroll && first >= 0) this.list.show(first);
  }
}

// Lines of a program by the instruction that they hold, of LLVM IR by the one that they came from.
export const programLinks = (lines) =>
  lines.map((line) => /^\s*%(\d+) =/.exec(line)).map((m) => (m ? Number(m[1]) : undefined));
export const sourceLinks = (lines) => {
  let last;
  return lines.map((line) => {
    const match =
      /^\s*%(?:v|i)(\d+)[. ]/.exec(line) ?? /^(?:loop|acc)\.(\d+)/.exec(line) ?? /%(?:v|i)(\d+)\b/.exec(line);
    if (/^\s*(?:%|store)/.test(line) || match) last = match ? Number(match[1]) : last;
    return match ? Number(match[1]) : undefined;
  });
};

// Lines of assembly by the instruction of the program whose LLVM IR they came from.
export const assemblyLinks = (kernel, source) => {
  const links = sourceLinks(source);
  return (kernel.assembly_lines ?? []).map((line) => (line ? links[line - 1] : undefined));
};

// Loops without a loop inside are hot.
export function hotLines(lines) {
  const hot = new Array(lines.length).fill("");
  let open = -1;
  lines.forEach((line, i) => {
    if (/= loop /.test(line)) open = i;
    else if (/^\s*end /.test(line) && open >= 0) {
      hot.fill("hot", open, i + 1);
      open = -1;
    }
  });
  return hot;
}
