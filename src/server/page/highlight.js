// Code in colours: comments, strings, numbers and words that languages keep for themselves. One pattern for a family of
// languages; what it does not know stays plain.

const kWords = {
  c: 'alignas auto bool break case catch char class co_await co_return co_yield concept const consteval constexpr ' +
      'continue default delete do double else enum explicit extern false float for friend goto if inline int long ' +
      'mutable namespace new noexcept nullptr operator private protected public register requires return short ' +
      'signed sizeof static struct switch template this throw true try typedef typename union unsigned using virtual ' +
      'void volatile while NULL async await function let var of in instanceof typeof undefined null export import ' +
      'from extends implements interface package final abstract super boolean byte string type func go defer chan ' +
      'map range select fn impl match mut pub ref self Self trait where crate mod use dyn loop move unsafe as yield',
  python: 'and as assert async await break case class continue def del elif else except False finally for from ' +
      'global if import in is lambda match None nonlocal not or pass raise return self True try while with yield',
  shell: 'case do done elif else esac export fi for function if in local return set then unset until while echo ' +
      'cd sudo',
  sql: 'select from where insert into update delete create table drop alter join left right inner outer on as and or ' +
      'not null is in like group by order having limit offset union all distinct values set primary key references',
};
const kFamilies = {
  python: 'python', py: 'python', ruby: 'python', rb: 'python', yaml: 'python', yml: 'python', toml: 'python',
  sh: 'shell', bash: 'shell', zsh: 'shell', shell: 'shell', console: 'shell', dockerfile: 'shell', makefile: 'shell',
  sql: 'sql',
};
const kPlain = new Set(['', 'text', 'txt', 'plain', 'plaintext', 'markdown', 'md', 'html', 'xml', 'diff']);

const kStrings = String.raw`"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'`;
const kNumbers = String.raw`\b(?:0[xX][\da-fA-F_]+|0[bB][01_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\b`;
const kComments = {
  c: String.raw`\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)`,
  python: String.raw`#[^\n]*`,
  shell: String.raw`(?<![^\s;])#[^\n]*`,
  sql: String.raw`--[^\n]*|\/\*[^]*?(?:\*\/|$)`,
};
const kLong = {
  c: '`(?:\\\\.|[^`\\\\])*`|',
  python: String.raw`"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|`,
  shell: '',
  sql: '',
};

function patternOf(family) {
  const words = kWords[family].split(' ').join('|');
  return new RegExp(`(?<comment>${kComments[family]})|(?<string>${kLong[family]}${kStrings})|(?<number>${kNumbers})|` +
                    `\\b(?<keyword>${words})\\b`, family === 'sql' ? 'gi' : 'g');
}

// Texts and elements that together have the text.
export function highlight(language, text) {
  const name = language.toLowerCase();
  if (kPlain.has(name) || text.length > 100_000) return [text];
  const nodes = [];
  let at = 0;
  for (const match of text.matchAll(patternOf(kFamilies[name] ?? 'c'))) {
    const kind = Object.keys(match.groups).find((group) => match.groups[group] !== undefined);
    const node = document.createElement('span');
    node.className = kind;
    node.textContent = match[0];
    if (match.index > at) nodes.push(text.slice(at, match.index));
    nodes.push(node);
    at = match.index + match[0].length;
  }
  if (at < text.length) nodes.push(text.slice(at));
  return nodes;
}
