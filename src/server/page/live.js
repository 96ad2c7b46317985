// The panel of what the server does now: asked of /metrics every second while it is open.

const kEvery = 1000, kShown = 60;  // milliseconds; points of the curve

const $ = (id) => document.getElementById(id);

// name -> value; lines with labels are added up.
function parse(text) {
  const values = new Map();
  for (const line of text.split('\n')) {
    const found = /^([a-z_:]+)(\{[^}]*\})? ([^ ]+)$/i.exec(line);
    if (found && !found[2]?.includes('le=')) values.set(found[1], (values.get(found[1]) ?? 0) + Number(found[3]));
  }
  return values;
}

const percent = (part) => `${(100 * part).toFixed(part < 0.1 ? 1 : 0)} %`;
const seconds = (s) => (s < 1 ? `${(s * 1e3).toFixed(0)} ms` : `${s.toFixed(2)} s`);

// What changed between two readings, as text for each figure; "-" where there is nothing to say.
function figures(now, before) {
  const value = (name) => now.values.get(name) ?? 0;
  const change = (name) => value(name) - (before?.values.get(name) ?? 0);
  const rate = (name) => (before ? change(name) / (now.time - before.time) : 0);
  const firsts = change('vllm:time_to_first_token_seconds_count');
  const first = firsts > 0 ? change('vllm:time_to_first_token_seconds_sum') / firsts : NaN;
  const busy = change('smelt:generating_seconds_total'), roof = value('smelt:memory_bandwidth_bytes');
  const share = before && busy > 0 && roof > 0 ? change('smelt:generating_bytes_total') / busy / roof : null;
  const looked = value('vllm:prefix_cache_queries_total');
  return {
    rate: rate('vllm:generation_tokens_total'),
    texts: {
      'live-decode': `${rate('vllm:generation_tokens_total').toFixed(1)} tokens/s`,
      'live-prompt': `${rate('vllm:prompt_tokens_total').toFixed(0)} tokens/s`,
      'live-first': Number.isNaN(first) ? null : seconds(first),
      'live-requests': `${value('vllm:num_requests_running')} + ${value('vllm:num_requests_waiting')} waiting`,
      'live-cache': percent(value('vllm:kv_cache_usage_perc')),
      'live-roof': share === null ? null : percent(share),
      'live-hits': looked > 0 ? percent(value('vllm:prefix_cache_hits_total') / looked) : null,
    },
  };
}

function curve(rates) {
  const most = Math.max(...rates, 1);
  const across = (i) => (100 * (kShown - rates.length + i)) / (kShown - 1);
  const points = rates.map((rate, i) => `${across(i)},${30 - (28 * rate) / most}`);
  $('live-curve').setAttribute('points', points.join(' '));
}

let timer = 0, before = null, rates = [];

async function look(headers) {
  try {
    const response = await fetch('/metrics', {headers: headers()});
    if (!response.ok) throw new Error(response.statusText);
    const now = {time: performance.now() / 1e3, values: parse(await response.text())};
    const {rate, texts} = figures(now, before);
    for (const [id, text] of Object.entries(texts)) if (text !== null) $(id).textContent = text;
    rates = [...rates, rate].slice(-kShown);
    before = now;
    curve(rates);
  } catch {
    for (const node of $('live').querySelectorAll('dd')) node.textContent = '-';
    before = null;
  }
}

// `headers`: what a request to the server has.
export function toggle(headers) {
  const opens = $('live').hidden;
  $('live').hidden = !opens;
  $('open-live').setAttribute('aria-expanded', String(opens));
  clearInterval(timer);
  before = null;
  rates = [];
  if (!opens) return;
  look(headers);
  timer = setInterval(() => look(headers), kEvery);
}
