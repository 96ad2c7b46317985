// Formulas as models write them in TeX, shown readably without a typesetter: letters and signs of Unicode, raised and
// lowered parts, fractions on a line. What is not known stays as it was written.

const kSigns = {
  alpha: 'α', beta: 'β', gamma: 'γ', delta: 'δ', epsilon: 'ε', varepsilon: 'ε', zeta: 'ζ', eta: 'η', theta: 'θ',
  iota: 'ι', kappa: 'κ', lambda: 'λ', mu: 'μ', nu: 'ν', xi: 'ξ', pi: 'π', rho: 'ρ', sigma: 'σ', tau: 'τ', phi: 'φ',
  varphi: 'φ', chi: 'χ', psi: 'ψ', omega: 'ω', Gamma: 'Γ', Delta: 'Δ', Theta: 'Θ', Lambda: 'Λ', Xi: 'Ξ', Pi: 'Π',
  Sigma: 'Σ', Phi: 'Φ', Psi: 'Ψ', Omega: 'Ω', times: '×', cdot: '·', div: '÷', pm: '±', mp: '∓', ast: '∗',
  le: '≤', leq: '≤', ge: '≥', geq: '≥', ne: '≠', neq: '≠', approx: '≈', equiv: '≡', sim: '∼', propto: '∝', ll: '≪',
  gg: '≫', infty: '∞', partial: '∂', nabla: '∇', sum: '∑', prod: '∏', int: '∫', oint: '∮', in: '∈', notin: '∉',
  subset: '⊂', subseteq: '⊆', supset: '⊃', cup: '∪', cap: '∩', emptyset: '∅', varnothing: '∅', forall: '∀',
  exists: '∃', neg: '¬', land: '∧', lor: '∨', wedge: '∧', vee: '∨', to: '→', rightarrow: '→', leftarrow: '←',
  Rightarrow: '⇒', Leftarrow: '⇐', implies: '⇒', iff: '⇔', Leftrightarrow: '⇔', mapsto: '↦', langle: '⟨', rangle: '⟩',
  lfloor: '⌊', rfloor: '⌋', lceil: '⌈', rceil: '⌉', mid: '|', vert: '|', ldots: '…', dots: '…', cdots: '⋯',
  vdots: '⋮', quad: '  ', qquad: '    ', circ: '∘', degree: '°', prime: '′', hbar: 'ℏ', ell: 'ℓ', Re: 'ℜ', Im: 'ℑ',
  perp: '⊥', parallel: '∥', angle: '∠', triangle: '△', therefore: '∴', because: '∵', oplus: '⊕', otimes: '⊗',
};
const kBoards = {R: 'ℝ', N: 'ℕ', Z: 'ℤ', Q: 'ℚ', C: 'ℂ', P: 'ℙ', E: '𝔼'};
const kFunctions = new Set('sin cos tan cot log ln exp lim max min sup inf det dim gcd arg mod Pr'.split(' '));
const kStyles = new Set(
    'text textbf textit mathrm mathbf mathit mathsf mathcal operatorname boxed bar vec hat tilde'.split(' '));
const kNothing = new Set('left right big Big bigl bigr Bigl Bigr displaystyle limits nolimits'.split(' '));

function element(name, children) {
  const node = document.createElement(name);
  node.append(...children);
  return node;
}

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.depth = 0;
  }

  // Up to the brace that closes, or the end.
  all() {
    const nodes = [];
    while (this.at < this.text.length && this.text[this.at] !== '}') nodes.push(...this.one());
    return nodes;
  }

  // A group in braces, or the next sign.
  argument() {
    while (this.text[this.at] === ' ') ++this.at;
    if (this.text[this.at] !== '{' || this.depth >= 32) return this.at < this.text.length ? this.one() : [];
    ++this.at;
    ++this.depth;
    const nodes = this.all();
    --this.depth;
    ++this.at;
    return nodes;
  }

  one() {
    const c = this.text[this.at];
    if (c === '{') return this.argument();
    ++this.at;
    if (c === '^') return [element('sup', this.argument())];
    if (c === '_') return [element('sub', this.argument())];
    if (c === '&') return [' '];
    if (c === '~') return ['\u00a0'];
    if (c === '-') return ['\u2212'];
    return c === '\\' ? this.command() : [c];
  }

  command() {
    const name = /^([a-zA-Z]+|.)\*?/.exec(this.text.slice(this.at))?.[1] ?? '';
    this.at += name.length;
    if (name === '\\') return [document.createElement('br')];
    if (name === 'frac' || name === 'dfrac' || name === 'tfrac') return fraction(this.argument(), this.argument());
    if (name === 'sqrt') return ['√', ...grouped(this.argument())];
    if (name === 'binom') return ['C(', ...this.argument(), ', ', ...this.argument(), ')'];
    if (name === 'mathbb') return this.argument().map((n) => kBoards[n] ?? n);
    if (name === 'begin' || name === 'end') return this.argument(), [];
    if (kStyles.has(name)) return this.argument();
    if (kFunctions.has(name)) return [name, '\u2009'];
    if (kNothing.has(name)) return [];
    if (kSigns[name]) return [kSigns[name]];
    if (/^[,;:! ]$/.test(name)) return name === '!' ? [] : ['\u2009'];
    return /^[a-zA-Z]/.test(name) ? ['\\' + name] : [name];
  }
}

const textOf = (nodes) => nodes.map((n) => (typeof n === 'string' ? n : n.textContent)).join('');
const grouped = (nodes) => (textOf(nodes).trim().length > 1 ? ['(', ...nodes, ')'] : nodes);
const fraction = (above, below) => {
  const simple = (nodes) => (/^[\p{L}\p{N}.]*$/u.test(textOf(nodes).trim()) ? nodes : grouped(nodes));
  return [...simple(above), '/', ...simple(below)];
};

// `isBlock`: in a line of its own.
export function maths(text, isBlock = false) {
  const reader = new Reader(text.trim());
  const nodes = [];
  while (reader.at < reader.text.length) {
    nodes.push(...reader.all());
    if (reader.text[reader.at++] === '}') nodes.push('}');
  }
  const node = element(isBlock ? 'div' : 'span', nodes);
  node.className = 'maths';
  node.title = text.trim();
  return node;
}
