// Recordings made of another one, for viz.mjs: with markup for texts, with 1,000 kernels, with faults, with a cycle, with
// a million nodes, and cut off.
//   node recordings.mjs RECORDING FOLDER
import { readFileSync, writeFileSync } from "node:fs";

const [from, folder] = process.argv.slice(2);
const copy = () => JSON.parse(readFileSync(from));
const save = (name, recording) => writeFileSync(`${folder}/viz-${name}.json`, JSON.stringify(recording));

const markup = '<img src=x onerror="window.broken=1;alert(1)"></script><script>window.broken=1</script>';
const hostile = copy();
hostile.name = hostile.device = markup;
hostile.strings = hostile.strings.map((text, i) => (text.includes(".cpp") && i % 7 === 0 ? markup : text));
for (const kernel of hostile.kernels) {
  kernel.name += markup;
  kernel.program += markup;
  kernel.passes[0].fault = markup;
}
for (const k of hostile.profile.plans.flatMap((plan) => plan.kernels)) {
  k.name += markup;
  k.what = k.stage = markup;
}
hostile.search = [
  {
    ...{ kernel: markup, plan: markup, stage: markup, what: markup, layout: markup, problem: "", before: markup },
    ...{ after: markup, calls: 1, share: 1, before_us: 2, after_us: 1, floor_us: 0, improved: true },
    ...{ interrupted: false, considered: 2, hopeless: 0, compiled: 2, wrong: 1, judged: 1, winner: 1 },
    trials: [
      [-1, 0, 1, 1, 0, markup],
      [0, 1, 2, 0.5, 0.5, markup],
      [0, 1, 2, 0, 0, markup, markup],
    ],
  },
];
hostile.tracks = [
  { name: markup, events: [[hostile.strings.indexOf(markup), 0, 0, 10, hostile.strings.indexOf(markup)]] },
];
save("hostile", hostile);

const many = copy(),
  pattern = many.kernels[0],
  launch = many.plans[0].launches[0];
for (let i = many.kernels.length; i < 1000; ++i) {
  const name = `copy_${i}`;
  many.kernels.push({ ...pattern, name, passes: [], program: "program", source: "", assembly: "", assembly_lines: [] });
  many.plans[0].launches.push([i, ...launch.slice(1)]);
  many.profile.plans[0].kernels.push({ ...many.profile.plans[0].kernels[0], name });
}
for (const run of many.timeline.runs.filter((r) => r.plan === 0))
  for (let i = run.times.length; i < many.plans[0].launches.length; ++i) {
    run.times.push(1000 + i);
    for (const worker of run.workers ?? []) worker.push(900);
  }
save("many", many);

const faults = copy();
for (const { passes } of [faults.segments[0], faults.kernels[0]]) {
  const root = faults.nodes[passes[0].roots[0]];
  passes[0].fault = "[verify] a source is of another type";
  passes[0].fault_node = root[2][0];
}
save("faults", faults);

const cycle = copy(),
  last = cycle.nodes.length - 1;
cycle.nodes[last][2] = [last];
save("cycle", cycle);

const million = copy();
million.nodes = Array.from({ length: 1_000_000 }, () => [0, 0]);
save("million", million);
writeFileSync(`${folder}/viz-half.json`, JSON.stringify(copy()).slice(0, 5000));
