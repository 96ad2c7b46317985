// What this browser keeps: conversations and settings. A conversation is {id, title, changed, messages}, and forks
// where it has branches (branches.js); a message has role and content, and of the model also reasoning, calls,
// figures, error.

const kConversations = 'smelt.conversations', kSettings = 'smelt.settings';

function read(key, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

// False where the browser keeps no more.
function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

const isMessage = (m) => m && typeof m.role === 'string' && typeof m.content === 'string';
const isLine = (messages) => Array.isArray(messages) && messages.every(isMessage);
const isFork = (f) => f && typeof f.after === 'string' && Array.isArray(f.tails) && f.tails.every(isLine) &&
  Number.isInteger(f.seen) && f.seen >= 0 && f.seen < f.tails.length;
const isConversation = (c) =>
  c && typeof c.id === 'string' && typeof c.title === 'string' && isLine(c.messages) &&
  (c.forks === undefined || (Array.isArray(c.forks) && c.forks.every(isFork)));

export const settings = read(kSettings, {});
export const saveSettings = () => write(kSettings, settings);

let conversations = read(kConversations, []);
if (!Array.isArray(conversations)) conversations = [];
conversations = conversations.filter(isConversation);

const save = () => write(kConversations, conversations);

export function all(words = '') {
  const wanted = words.toLowerCase();
  const texts = (messages) => messages.map((m) => m.content);
  const has = (c) => [c.title, ...texts(c.messages), ...(c.forks ?? []).flatMap((f) => f.tails.flatMap(texts))].some(
      (text) => text.toLowerCase().includes(wanted));
  return conversations.filter(has).sort((a, b) => b.changed - a.changed);
}

export const find = (id) => conversations.find((c) => c.id === id);

export function create() {
  const conversation = {id: crypto.randomUUID(), title: 'New conversation', changed: Date.now(), messages: []};
  conversations.push(conversation);
  return conversation;
}

// Those that nobody has written in are not kept.
export function touch(conversation) {
  conversation.changed = Date.now();
  const first = conversation.messages.find((m) => m.role === 'user');
  if (first) conversation.title = first.content.trim().split('\n')[0].slice(0, 60) || 'New conversation';
  conversations = conversations.filter((c) => c === conversation || c.messages.length > 0);
  return save();
}

export function remove(id) {
  conversations = conversations.filter((c) => c.id !== id);
  save();
}

export const exported = () => JSON.stringify(conversations, null, 1);

// How many came; those that are there already are replaced.
export function imported(text) {
  const list = JSON.parse(text);
  if (!Array.isArray(list) || !list.every(isConversation)) throw new Error('no conversations of this page');
  for (const c of list) {
    conversations = conversations.filter((old) => old.id !== c.id);
    conversations.push({...c, changed: Number(c.changed) || 0});
  }
  save();
  return list.length;
}
