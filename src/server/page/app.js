// The page: conversations at the side, messages, and the request to the server whose answer comes as a stream.
import * as branches from '/branches.js';
import {highlight} from '/highlight.js';
import * as live from '/live.js';
import {markdown} from '/markdown.js';
import * as store from '/store.js';

const $ = (id) => document.getElementById(id);
const kNumbers = ['temperature', 'top_k', 'top_p', 'min_p', 'max_tokens', 'seed'];
const kTexts = ['system', 'tools', 'schema', 'key', 'theme'];

let current = null;    // the conversation that is seen
let answering = null;  // {conversation, message, stop}
let editing = null;    // the index of the message whose text is in the input

function make(name, className = '', ...children) {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

function button(text, title, onClick, className = '') {
  const node = make('button', className, text);
  node.type = 'button';
  node.title = title;
  node.addEventListener('click', onClick);
  return node;
}

// --- the list of conversations

function showList() {
  $('list').replaceChildren(...store.all($('search').value).map((c) => {
    const open = button(c.title, c.title, () => show(c), 'name');
    const remove = button('\u00d7', 'Delete this conversation', () => {
      if (!confirm(`Delete "${c.title}"?`)) return;
      if (answering?.conversation === c) answering.stop.abort();
      store.remove(c.id);
      c === current ? show(null) : showList();
    }, 'remove');
    return make('div', c === current ? 'entry current' : 'entry', open, remove);
  }));
}

function show(conversation) {
  current = conversation;
  editing = null;
  $('side').classList.remove('open');
  $('menu').setAttribute('aria-expanded', 'false');
  showList();
  showMessages();
  $('input').focus();
}

// --- messages

function thoughts(message, isOpen) {
  const title = message.content || !answering ? 'Thoughts' : 'Thinking ...';
  const node = make('details', 'thoughts', make('summary', '', title), make('div', '', message.reasoning));
  node.open = isOpen;
  return node;
}

// Arguments in lines, once they are complete.
function inLines(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

function callNode(call) {
  const code = make('code', '', ...highlight('json', inLines(call.arguments)));
  return make('div', 'call', make('strong', '', call.name), make('pre', '', code));
}

// Where results of the calls of the last answer are written.
function resultForm(message, index) {
  const fields = message.calls.map((call) => {
    const field = make('textarea');
    field.rows = 2;
    field.placeholder = `What ${call.name} gave`;
    field.setAttribute('aria-label', field.placeholder);
    return field;
  });
  const give = () => {
    if (answering || fields.some((field) => !field.value.trim())) return;
    current.messages.length = index + 1;
    message.calls.forEach((call, i) => {
      call.id ||= `call${10000 + i}`;
      current.messages.push({role: 'tool', content: fields[i].value, tool_call_id: call.id, name: call.name});
    });
    answer(current);
  };
  return make('div', 'results', ...fields, button('Give results', 'Go on with what the tools gave', give));
}

function fillAnswer(body, message) {
  const wasOpen = body.querySelector('details.thoughts')?.open ?? false;
  const nodes = [];
  if (message.reasoning) nodes.push(thoughts(message, wasOpen));
  nodes.push(...markdown(message.content));
  nodes.push(...(message.calls ?? []).map(callNode));
  if (message.error) nodes.push(make('p', 'error', message.error));
  body.replaceChildren(...nodes);
}

function messageNode(message, index) {
  const body = make('div', 'body'), tools = make('div', 'tools');
  const node = make('article', `message ${message.role}`, body, tools);
  const choices = branches.choices(current, index);
  if (choices) {
    const turn = (step, text, title) => {
      const one = button(text, title, () => go(index, step));
      one.disabled = choices.seen + step < 0 || choices.seen + step >= choices.count;
      return one;
    };
    const place = make('span', 'place', `${choices.seen + 1} of ${choices.count}`);
    tools.append(turn(-1, '\u2039', 'The branch before'), place, turn(1, '\u203a', 'The next branch'));
  }
  if (message.role === 'tool') {
    body.append(make('div', 'call', make('strong', '', `${message.name} gave`), make('pre', '', message.content)));
  } else if (message.role === 'user') {
    body.append(message.content);
    tools.append(button('Edit', 'Change this message and ask again', () => edit(index)));
  } else {
    fillAnswer(body, message);
    const isLast = index === current.messages.length - 1;
    if (isLast && message.calls && !answering) body.append(resultForm(message, index));
    tools.append(button('Copy', 'Copy the answer', () => navigator.clipboard.writeText(message.content)),
                 button('Again', 'Have this answer written again', () => again(index)));
  }
  return node;
}

function showMessages() {
  const list = current?.messages ?? [];
  $('messages').replaceChildren(...list.map(messageNode));
  if (list.length === 0) $('messages').append(make('p', 'empty', 'Ask something.'));
  $('messages').scrollTop = $('messages').scrollHeight;
  showFigures();
  showState();
}

function showFigures() {
  const last = current?.messages.findLast((m) => m.figures)?.figures;
  $('figures').textContent = last ? `${last.rate.toFixed(1)} tokens/s, first after ${last.first.toFixed(2)} s` : '';
}

function showState() {
  $('stop').hidden = !answering;
  $('send').hidden = !!answering;
}

// Its text comes into the input; what is sent then is another branch.
function edit(index) {
  if (answering) return;
  editing = index;
  $('messages').children[index].classList.add('edited');
  $('input').value = current.messages[index].content;
  grow();
  $('input').focus();
}

function leaveEdit() {
  editing = null;
  $('input').value = '';
  grow();
  showMessages();
}

function again(index) {
  if (answering) return;
  branches.branch(current, index);
  answer(current);
}

function go(index, step) {
  if (answering) return;
  branches.choose(current, index, step);
  store.touch(current);
  show(current);
}

// --- asking

// A message as the server takes it.
function sent({role, content, reasoning, calls, tool_call_id, name}) {
  const message = {role, content};
  if (role === 'tool') return {...message, tool_call_id, name};
  if (calls) {
    const asSent = (c) => ({id: c.id, type: 'function', function: {name: c.name, arguments: c.arguments}});
    message.tool_calls = calls.map(asSent);
    if (reasoning) message.reasoning_content = reasoning;
  }
  return message;
}

function requestOf(conversation) {
  const s = store.settings;
  const messages = conversation.messages.filter((m) => !m.error || m.content || m.calls).map(sent);
  if (s.system) messages.unshift({role: 'system', content: s.system});
  const body = {messages, stream: true, stream_options: {include_usage: true}};
  for (const name of kNumbers) if (typeof s[name] === 'number') body[name] = s[name];
  if (s.tools) body.tools = JSON.parse(s.tools);
  if (s.schema)
    body.response_format = {type: 'json_schema', json_schema: {name: 'answer', schema: JSON.parse(s.schema)}};
  return body;
}

function headers() {
  const known = {'Content-Type': 'application/json'};
  if (store.settings.key) known.Authorization = `Bearer ${store.settings.key}`;
  return known;
}

// The objects of a stream of events, as they come.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const parts = (held + value).split('\n\n');
    held = parts.pop();
    for (const part of parts) {
      if (!part.startsWith('data: ') || part === 'data: [DONE]') continue;
      yield JSON.parse(part.slice(6));
    }
  }
}

function take(message, event) {
  if (event.error) throw new Error(event.error.message);
  if (event.usage) message.tokens = event.usage.completion_tokens;
  const delta = event.choices?.[0]?.delta ?? {};
  if (delta.reasoning_content) message.reasoning = (message.reasoning ?? '') + delta.reasoning_content;
  if (delta.content) message.content += delta.content;
  for (const part of delta.tool_calls ?? []) {
    const call = ((message.calls ??= [])[part.index] ??= {name: '', arguments: ''});
    call.id ??= part.id;
    call.name += part.function?.name ?? '';
    call.arguments += part.function?.arguments ?? '';
  }
}

async function answer(conversation) {
  const message = {role: 'assistant', content: ''}, stop = new AbortController();
  answering = {conversation, message, stop};
  let body;
  const started = performance.now();
  let first = 0, count = 0, drawing = false;
  try {
    body = JSON.stringify(requestOf(conversation));
  } catch {
    message.error = 'The JSON schema or the tools of the settings are no JSON.';
  }
  conversation.messages.push(message);
  store.touch(conversation);
  show(conversation);

  const draw = () => {
    drawing = false;
    if (current !== conversation || answering?.message !== message) return;
    const list = $('messages'), node = list.lastElementChild?.querySelector('.body');
    const follows = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
    if (node) fillAnswer(node, message);
    if (follows) list.scrollTop = list.scrollHeight;
  };
  try {
    if (body) {
      const request = {method: 'POST', headers: headers(), body, signal: stop.signal};
      const response = await fetch('/v1/chat/completions', request);
      if (!response.ok)
        throw new Error((await response.json().catch(() => null))?.error?.message ?? response.statusText);
      for await (const event of events(response)) {
        take(message, event);
        if (message.content || message.reasoning || message.calls) first ||= performance.now();
        if (first) ++count;
        if (!drawing) requestAnimationFrame(draw);
        drawing = true;
      }
    }
  } catch (error) {
    if (error.name !== 'AbortError') message.error = error.message || 'The server cannot be reached.';
  }
  if (first) {
    const seconds = (performance.now() - first) / 1e3;
    message.figures = {rate: (message.tokens ?? count) / Math.max(seconds, 1e-3), first: (first - started) / 1e3};
  }
  answering = null;
  if (!store.touch(conversation)) message.error = 'This browser keeps no more conversations; delete some.';
  if (current === conversation) showMessages();
  showList();
}

function send() {
  const content = $('input').value.trim();
  if (!content || answering) return;
  current ??= store.create();
  if (editing !== null) branches.branch(current, editing);
  editing = null;
  current.messages.push({role: 'user', content});
  $('input').value = '';
  grow();
  answer(current);
}

// --- settings

function showSettings() {
  for (const name of [...kNumbers, ...kTexts]) $(name).value = store.settings[name] ?? '';
  $('settings').showModal();
}

function takeSettings() {
  for (const name of kTexts) store.settings[name] = $(name).value.trim() || undefined;
  for (const name of kNumbers)
    store.settings[name] = $(name).value === '' || !$(name).validity.valid ? undefined : $(name).valueAsNumber;
  store.saveSettings();
  useTheme();
  greet();
}

function useTheme() {
  document.documentElement.dataset.theme = store.settings.theme ?? '';
}

async function greet() {
  try {
    const response = await fetch('/props', {headers: headers()});
    const props = await response.json();
    $('model').textContent = response.ok ? props.model_alias : props.error.message;
    if (response.status === 503) setTimeout(greet, 1000);  // the model is being loaded
    if (!response.ok) return;
    const usual = props.default_generation_settings.params;
    for (const name of kNumbers) $(name).placeholder = name in usual ? Number(usual[name].toFixed(3)) : '';
  } catch {
    $('model').textContent = 'The server cannot be reached.';
  }
}

function grow() {
  const input = $('input');
  input.style.height = 'auto';
  input.style.height = `${input.scrollHeight + 2}px`;
}

// --- what users do

$('composer').addEventListener('submit', (event) => {
  event.preventDefault();
  send();
});
$('input').addEventListener('input', grow);
$('input').addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
$('stop').addEventListener('click', () => answering?.stop.abort());
$('new').addEventListener('click', () => show(null));
$('search').addEventListener('input', showList);
$('menu').addEventListener('click', () => {
  const open = $('side').classList.toggle('open');
  $('menu').setAttribute('aria-expanded', String(open));
});
$('messages').addEventListener('click', () => $('side').classList.remove('open'));
$('open-live').addEventListener('click', () => live.toggle(headers));
$('open-settings').addEventListener('click', showSettings);
$('settings').addEventListener('close', takeSettings);
$('export').addEventListener('click', () => {
  const link = make('a');
  link.href = URL.createObjectURL(new Blob([store.exported()], {type: 'application/json'}));
  link.download = 'smelt-conversations.json';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});
$('import').addEventListener('change', async (event) => {
  try {
    store.imported(await event.target.files[0].text());
  } catch (error) {
    alert(`This file cannot be read: ${error.message}`);
  }
  event.target.value = '';
  showList();
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && answering && !$('settings').open) answering.stop.abort();
  if (event.key === 'Escape' && editing !== null && !$('settings').open) leaveEdit();
  if (event.key.toLowerCase() === 'o' && event.ctrlKey && event.shiftKey) {
    event.preventDefault();
    show(null);
  }
});

useTheme();
greet();
show(null);
