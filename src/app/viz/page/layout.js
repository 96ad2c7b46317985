// Layered layout of a directed graph: ranks, order within ranks, places. Small graphs of boxes, a few hundred at most.

// boxes: [{ width, height }], edges: [[from, to]]. Puts x and y (of the middle) into boxes; returns [width, height].
export function placeLayers(boxes, edges, gapX = 26, gapY = 46) {
  const forward = withoutCycles(boxes.length, edges);
  const rank = ranksOf(boxes.length, forward);
  const layers = [];
  rank.forEach((r, i) => (layers[r] ??= []).push(i));
  for (let r = 0; r < layers.length; ++r) layers[r] ??= [];
  orderLayers(layers, forward);
  const width = placeAcross(boxes, layers, forward, gapX);
  let y = 0;
  for (const layer of layers) {
    const height = Math.max(0, ...layer.map((i) => boxes[i].height));
    for (const i of layer) boxes[i].y = y + height / 2;
    y += height + gapY;
  }
  return [width, Math.max(0, y - gapY)];
}

// Folded graphs may have cycles: an edge that closes one is turned round.
function withoutCycles(count, edges) {
  const out = Array.from({ length: count }, () => []);
  for (const [a, b] of edges) if (a !== b) out[a].push(b);
  const state = new Uint8Array(count),
    forward = [];
  for (let root = 0; root < count; ++root) {
    if (state[root]) continue;
    const stack = [[root, 0]];
    state[root] = 1;
    while (stack.length) {
      const top = stack[stack.length - 1],
        [at, next] = top;
      if (next === out[at].length) {
        state[at] = 2;
        stack.pop();
        continue;
      }
      ++top[1];
      const to = out[at][next];
      if (state[to] === 1) {
        forward.push([to, at]);
        continue;
      }
      forward.push([at, to]);
      if (!state[to]) {
        state[to] = 1;
        stack.push([to, 0]);
      }
    }
  }
  return forward;
}

// The longest way from a start; boxes that only begin something come right above what they begin.
function ranksOf(count, edges) {
  const rank = new Int32Array(count),
    open = new Int32Array(count),
    out = Array.from({ length: count }, () => []);
  for (const [a, b] of edges) {
    ++open[b];
    out[a].push(b);
  }
  const ready = [];
  for (let i = 0; i < count; ++i) if (!open[i]) ready.push(i);
  const starts = new Set(ready);
  for (let i = 0; i < ready.length; ++i)
    for (const b of out[ready[i]]) {
      rank[b] = Math.max(rank[b], rank[ready[i]] + 1);
      if (--open[b] === 0) ready.push(b);
    }
  for (const i of starts) if (out[i].length) rank[i] = Math.min(...out[i].map((b) => rank[b])) - 1;
  return [...rank];
}

// Each box towards the middle of its neighbours, down and up a few times.
function orderLayers(layers, edges) {
  const place = [];
  const settle = () =>
    layers.forEach((layer) =>
      layer.forEach((i, k) => {
        place[i] = k / Math.max(1, layer.length);
      }),
    );
  settle();
  for (let round = 0; round < 8; ++round) {
    const neighbours = new Map();
    for (const [a, b] of edges) {
      const [of, is] = round % 2 ? [a, b] : [b, a];
      if (!neighbours.has(of)) neighbours.set(of, []);
      neighbours.get(of).push(is);
    }
    for (const layer of layers) {
      const weight = new Map(
        layer.map((i) => {
          const mine = neighbours.get(i);
          return [i, mine ? mine.reduce((sum, n) => sum + place[n], 0) / mine.length : place[i]];
        }),
      );
      layer.sort((a, b) => weight.get(a) - weight.get(b));
      layer.forEach((i, k) => {
        place[i] = k / Math.max(1, layer.length);
      });
    }
  }
}

// Side by side, then towards neighbours as far as the boxes beside leave room.
function placeAcross(boxes, layers, edges, gap) {
  const widths = layers.map((layer) => layer.reduce((sum, i) => sum + boxes[i].width + gap, -gap));
  const widest = Math.max(0, ...widths);
  layers.forEach((layer, r) => {
    let x = (widest - widths[r]) / 2;
    for (const i of layer) {
      boxes[i].x = x + boxes[i].width / 2;
      x += boxes[i].width + gap;
    }
  });
  const near = boxes.map(() => []);
  for (const [a, b] of edges) {
    near[a].push(b);
    near[b].push(a);
  }
  for (let round = 0; round < 10; ++round)
    for (const layer of round % 2 ? [...layers].reverse() : layers)
      layer.forEach((i, k) => {
        if (!near[i].length) return;
        const wish = near[i].reduce((sum, n) => sum + boxes[n].x, 0) / near[i].length;
        const left = k ? boxes[layer[k - 1]].x + (boxes[layer[k - 1]].width + boxes[i].width) / 2 + gap : -Infinity;
        const right =
          k + 1 < layer.length
            ? boxes[layer[k + 1]].x - (boxes[layer[k + 1]].width + boxes[i].width) / 2 - gap
            : Infinity;
        boxes[i].x = Math.max(left, Math.min(right, wish));
      });
  let low = Infinity,
    high = 0;
  for (const box of boxes) {
    low = Math.min(low, box.x - box.width / 2);
    high = Math.max(high, box.x + box.width / 2);
  }
  for (const box of boxes) box.x -= low;
  return high - low;
}
