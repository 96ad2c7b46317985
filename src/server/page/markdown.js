// Markdown to nodes of the document. Only text and a few known elements are made, so that nothing that a model writes
// can become a script, a style or a picture from elsewhere.
import {highlight} from '/highlight.js';
import {maths} from '/maths.js';

function element(name, children = [], className = '') {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

// --- within a line

const kInline = [
  [/^`([^`]+)`/, (m) => element('code', [m[1]])],
  [/^``(.+?)``/, (m) => element('code', [m[1].trim()])],
  [/^\*\*(?=\S)([^]*?\S)\*\*/, (m) => element('strong', inline(m[1]))],
  [/^__(?=\S)([^]*?\S)__(?!\w)/, (m) => element('strong', inline(m[1]))],
  [/^\*(?=\S)([^*]*?[^\s*])\*/, (m) => element('em', inline(m[1]))],
  [/^_(?=\S)([^_]*?[^\s_])_(?!\w)/, (m) => element('em', inline(m[1]))],
  [/^~~(?=\S)([^]*?\S)~~/, (m) => element('del', inline(m[1]))],
  [/^\[([^\]]+)\]\((\S+?)\)/, (m) => link(m[2], inline(m[1]))],
  [/^https?:\/\/[^\s<>"')\]]*[^\s<>"')\].,;:!?]/i, (m) => link(m[0], [m[0]])],
  [/^\\\(([^]+?)\\\)/, (m) => maths(m[1])],
  [/^\$(?=[^\s$])([^$\n]*?[^\s\\$])\$(?!\d)/, (m) => maths(m[1])],
  [/^\\([\\`*_~[\]()#+\-.!|>])/, (m) => m[1]],
];

function link(address, children) {
  if (!/^(https?:\/\/|mailto:)/i.test(address)) return element('span', children);
  const node = element('a', children);
  node.href = address;
  node.target = '_blank';
  node.rel = 'noopener noreferrer';
  node.title = address;
  return node;
}

export function inline(text) {
  const nodes = [];
  let plain = '';
  for (let at = 0; at < text.length;) {
    const rest = text.slice(at), inWord = /\w/.test(text[at - 1] ?? '');
    let found = null;
    if (/[`*_~[h\\$]/i.test(rest[0]) && !(inWord && /[_h]/i.test(rest[0]))) {
      for (const [pattern, make] of kInline) {
        const match = pattern.exec(rest);
        if (match) {
          found = [match[0].length, make(match)];
          break;
        }
      }
    }
    if (!found) {
      plain += text[at++];
      continue;
    }
    if (plain) nodes.push(plain);
    plain = '';
    nodes.push(found[1]);
    at += found[0];
  }
  if (plain) nodes.push(plain);
  return nodes;
}

// --- blocks

export function codeBlock(language, text) {
  const copy = element('button', ['Copy']);
  copy.type = 'button';
  copy.addEventListener('click', async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = 'Copied';
    setTimeout(() => (copy.textContent = 'Copy'), 1500);
  });
  return element('div', [element('div', [element('span', [language || 'text']), copy], 'bar'),
                         element('pre', [element('code', highlight(language, text))])], 'code');
}

const kItem = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const kFence = /^\s*(`{3,}|~{3,})\s*([\w+#.-]*)/;
const kRule = /^\s*([-*_])(\s*\1){2,}\s*$/;
const isTableRule = (line) => line !== undefined && line.includes('|') && /^[\s|:-]+$/.test(line) && line.includes('-');
const kFormula = /^\s*(\$\$|\\\[)/;
const kBlockStarts = [/^(#{1,6}\s|\s*>)/, kFormula, kFence, kItem, kRule];
const startsBlock = (line) => kBlockStarts.some((start) => start.test(line));

function cells(line) {
  return line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, '|'));
}

function list(lines, depth) {
  const [, indent, mark] = kItem.exec(lines[0]);
  const ordered = /\d/.test(mark);
  const node = element(ordered ? 'ol' : 'ul');
  if (ordered) node.start = parseInt(mark, 10);
  let item = null;
  const flush = () => {
    if (item) node.append(element('li', blocks(item, depth)));
  };
  for (const line of lines) {
    const match = kItem.exec(line);
    if (match && match[1].length <= indent.length + 1) {
      flush();
      item = [match[3]];
    } else {
      item.push(line.replace(/^ {1,4}|^\t/, ''));
    }
  }
  flush();
  return node;
}

// A paragraph alone in an item is its text.
function unwrapped(nodes) {
  if (nodes.length > 0 && nodes[0].nodeName === 'P') return [...nodes[0].childNodes, ...nodes.slice(1)];
  return nodes;
}

function blocks(lines, depth = 0) {
  const nodes = [];
  for (let i = 0; i < lines.length;) {
    const line = lines[i], fence = kFence.exec(line), heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line);
    if (!line.trim()) {
      ++i;
    } else if (fence) {
      const body = [];
      for (++i; i < lines.length && !lines[i].trim().startsWith(fence[1]); ++i) body.push(lines[i]);
      ++i;
      nodes.push(codeBlock(fence[2], body.join('\n')));
    } else if (kFormula.test(line)) {
      const end = kFormula.exec(line)[1] === '$$' ? '$$' : '\\]';
      let formula = line.trim().slice(2);
      while (!formula.includes(end) && ++i < lines.length) formula += '\n' + lines[i];
      ++i;
      nodes.push(maths(formula.split(end)[0], true));
    } else if (heading) {
      nodes.push(element('h' + Math.min(heading[1].length, 4), inline(heading[2])));
      ++i;
    } else if (kRule.test(line)) {
      nodes.push(element('hr'));
      ++i;
    } else if (/^\s*>/.test(line) && depth < 8) {
      const body = [];
      for (; i < lines.length && /^\s*>/.test(lines[i]); ++i) body.push(lines[i].replace(/^\s*> ?/, ''));
      nodes.push(element('blockquote', blocks(body, depth + 1)));
    } else if (kItem.test(line) && depth < 8) {
      const body = [], [, indent, mark] = kItem.exec(line);
      // "1." behind "-" begins another list, unless it lies within one.
      const isOther = (m) => m && m[1].length <= indent.length + 1 && /\d/.test(m[2]) !== /\d/.test(mark);
      for (; i < lines.length; ++i) {
        if (isOther(kItem.exec(lines[i]))) break;
        const blank = !lines[i].trim();
        if (blank && !(lines[i + 1] && (kItem.test(lines[i + 1]) || /^\s{2,}\S/.test(lines[i + 1])))) break;
        if (!blank && body.length > 0 && !kItem.test(lines[i]) && !/^\s/.test(lines[i]) && startsBlock(lines[i])) break;
        body.push(lines[i]);
      }
      const node = list(body, depth + 1);
      for (const item of node.children) item.replaceChildren(...unwrapped([...item.childNodes]));
      nodes.push(node);
    } else if (line.includes('|') && isTableRule(lines[i + 1])) {
      const row = (text, name) => element('tr', cells(text).map((cell) => element(name, inline(cell))));
      const head = row(line, 'th'), body = [];
      for (i += 2; i < lines.length && lines[i].includes('|'); ++i) body.push(row(lines[i], 'td'));
      nodes.push(element('table', [element('thead', [head]), element('tbody', body)]));
    } else {
      const body = [line];
      for (++i; i < lines.length && lines[i].trim() && !startsBlock(lines[i]); ++i) body.push(lines[i]);
      nodes.push(element('p', inline(body.join('\n'))));
    }
  }
  return nodes;
}

export const markdown = (text) => blocks(text.replace(/\r\n?/g, '\n').split('\n'));
