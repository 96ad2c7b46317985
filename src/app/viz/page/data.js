// A recording and the questions that views ask of it. The format is in docs/visualiser.md.

const kSymbols = {
  add: "+",
  sub: "-",
  mul: "*",
  div: "/",
  mod: "%",
  and: "&",
  or: "|",
  xor: "^",
  shl: "<<",
  shr: ">>",
  lt: "<",
  eq: "==",
};
const kMoves = new Set(["reshape", "permute", "expand", "shrink", "flip", "gather"]);

export class Recording {
  constructor(json) {
    Object.assign(this, json);
    this.machineRates = this.profile?.machine ?? {};
    this.users = null;
    this.byName = new Map(this.kernels.map((kernel, i) => [kernel.name, i]));
    this.profiled = new Map(); // of each plan's name: kernels by name
    for (const plan of this.profile?.plans ?? [])
      this.profiled.set(plan.name, new Map(plan.kernels.map((k) => [k.name, k])));
    this.estimates = new Map();
    for (const plan of this.estimate?.plans ?? [])
      this.estimates.set(plan.name, new Map(plan.kernels.map((k) => [k.name, k])));
    this.plans.forEach((plan, i) => {
      plan.seconds = this.launchSeconds(i);
    });
  }

  // --- nodes

  text(number) {
    return this.strings[number] ?? "";
  }
  op(n) {
    return this.strings[this.nodes[n][0]];
  }
  dtype(n) {
    return this.strings[this.nodes[n][1]];
  }
  sources(n) {
    return this.nodes[n][2] ?? [];
  }
  sizes(n) {
    return this.nodes[n][3] ?? [];
  }
  argument(n) {
    return this.nodes[n][4] ?? 0;
  }
  nameOf(n) {
    return this.text(this.nodes[n][5] ?? 0);
  }
  listOf(n) {
    return this.nodes[n][6] ?? [];
  }
  line(n) {
    return this.text(this.nodes[n][8] ?? 0);
  }
  isTensor(n) {
    return this.sizes(n).length > 0;
  }
  isMove(n) {
    return kMoves.has(this.op(n));
  }
  constant(n) {
    return this.nodes[n][7] ? this.text(this.nodes[n][7]) : String(this.argument(n));
  }
  isPlainConstant(n) {
    return this.op(n) === "const" && !this.isTensor(n);
  }

  shapeText(n) {
    return this.sizes(n)
      .map((size) => this.infix(size, 3))
      .join(" × ");
  }

  // "%12 = add f32 [4, 8] %3 2.5": numbers are those of the recording, the same in every pass.
  nodeText(n) {
    const refer = (s) => (this.isPlainConstant(s) ? this.constant(s) : `%${s}`);
    const sizes = this.sizes(n),
      list = this.listOf(n),
      name = this.nameOf(n);
    let text = `%${n} = ${this.op(n)} ${this.dtype(n)}`;
    if (sizes.length) text += ` [${sizes.map(refer).join(", ")}]`;
    for (const s of this.sources(n)) text += ` ${refer(s)}`;
    if (this.argument(n) !== 0 || this.op(n) === "const")
      text += this.nodes[n][7] ? ` f=${this.constant(n)}` : ` i=${this.argument(n)}`;
    if (list.length) text += ` list=[${list.join(", ")}]`;
    return name ? `${text} name=${JSON.stringify(name)}` : text;
  }

  infix(n, depth = 8) {
    if (depth === 0) return "…";
    const op = this.op(n);
    if (op === "const") return this.constant(n);
    if (op === "var") return this.nameOf(n);
    if (op === "range") return `r${this.argument(n)}`;
    if (op === "param" || op === "temp" || op === "local") return `${op}${this.argument(n)}`;
    const sources = this.sources(n);
    if (kSymbols[op] && sources.length === 2) {
      const side = (s) => {
        const text = this.infix(s, depth - 1);
        return kSymbols[this.op(s)] ? `(${text})` : text;
      };
      return `${side(sources[0])} ${kSymbols[op]} ${side(sources[1])}`;
    }
    if (op === "load") return `${this.infix(sources[0], depth - 1)}[${this.infix(sources[1], depth - 1)}]`;
    const name = op === "cast" || op === "bitcast" ? this.dtype(n) : op;
    return `${name}(${sources.map((s) => this.infix(s, depth - 1)).join(", ")})`;
  }

  // All nodes below the roots, sources first: numbers grow that way.
  below(roots) {
    const seen = new Set(),
      stack = [...roots];
    while (stack.length) {
      const n = stack.pop();
      if (seen.has(n)) continue;
      seen.add(n);
      stack.push(...this.sources(n), ...this.sizes(n));
    }
    return [...seen].sort((a, b) => a - b);
  }

  // The formulas of a kernel's tree, a line for each loop head and store.
  formulas(tree) {
    const lines = [];
    for (const nest of this.sources(tree))
      for (const store of this.op(nest) === "store" ? [nest] : this.sources(nest)) {
        const [buffer, offset, value, ...ranges] = this.sources(store);
        lines.push(
          `for ${ranges.map((r) => `${this.infix(r)} < ${this.infix(this.sources(r)[0])}`).join(", ") || "once"}:`,
        );
        lines.push(`  ${this.infix(buffer)}[${this.infix(offset, 16)}] = ${this.infix(value, 24)}`);
      }
    return lines;
  }

  // --- times

  runsOf(plan) {
    return (this.timeline?.runs ?? []).filter((run) => run.plan === plan);
  }

  profileName(plan) {
    return this.plans[plan]?.name.startsWith("decode") ? "decode" : "prefill";
  }

  profileOf(plan, kernel) {
    return this.profiled.get(this.profileName(plan))?.get(this.kernels[kernel].name);
  }
  estimateOf(plan, kernel) {
    return this.estimates.get(this.profileName(plan))?.get(this.kernels[kernel].name);
  }

  // Of each launch of a plan: the median over its runs, or what its kernel takes in the mean.
  launchSeconds(plan) {
    const runs = this.runsOf(plan);
    return this.plans[plan].launches.map(([kernel], i) => {
      if (runs.length) return median(runs.map((run) => run.times[i])) * 1e-9;
      const k = this.profileOf(plan, kernel);
      return k && k.calls ? k.seconds / k.calls : 0;
    });
  }

  // Of memory or of arithmetic, whichever is more; nothing where it was not measured.
  rooflineShare(k, seconds = k?.seconds) {
    if (!k || !seconds) return null;
    const memory = (k.bytes_read + k.bytes_written) / seconds / (this.machineRates.bytes_per_second || Infinity);
    const arithmetic = k.float_ops / seconds / (this.machineRates.float_ops_per_second || Infinity);
    return Math.max(memory, arithmetic);
  }

  // Kernels with what all plans say of them, costliest first.
  kernelRows() {
    if (this.rows) return this.rows;
    const rows = new Map();
    const row = (name) => {
      if (!rows.has(name))
        rows.set(name, { name, number: this.byName.get(name) ?? -1, seconds: 0, share: 0, uses: [] });
      return rows.get(name);
    };
    for (const kernel of this.kernels) row(kernel.name);
    for (const plan of this.profile?.plans ?? []) {
      const total = plan.kernels.reduce((sum, k) => sum + k.seconds, 0);
      for (const k of plan.kernels) {
        const mine = row(k.name);
        mine.uses.push({ plan: plan.name, ...k, share: k.seconds / total });
        mine.share = Math.max(mine.share, k.seconds / total);
        mine.seconds += k.seconds;
      }
    }
    this.rows = [...rows.values()].sort((a, b) => b.share - a.share);
    return this.rows;
  }

  segmentName(s) {
    const layers = [];
    for (const plan of this.plans)
      for (const [, segment, , layer] of plan.launches)
        if (segment === s && layer >= 0 && !layers.includes(layer)) layers.push(layer);
    const plans = this.plans
      .filter((plan) => plan.launches.some((launch) => launch[1] === s))
      .map((plan) => plan.name)
      .join(", ");
    const at = layers.length ? ` ${ranges(layers)}` : "";
    return `${plans}: ${this.segments[s].stage}${at}`;
  }
}

function ranges(numbers) {
  numbers.sort((a, b) => a - b);
  const parts = [];
  for (const n of numbers) {
    const last = parts[parts.length - 1];
    if (last && last[1] === n - 1) last[1] = n;
    else parts.push([n, n]);
  }
  return parts.map(([a, b]) => (a === b ? a : `${a}–${b}`)).join(", ");
}

export function median(values) {
  return percentile(values, 0.5);
}

export function percentile(values, share) {
  if (!values.length) return 0;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.round(share * (sorted.length - 1))];
}
