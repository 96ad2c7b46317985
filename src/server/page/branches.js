// Branches of a conversation: what was asked or answered in place of what is seen. `messages` is the line that is seen;
// where it could go on otherwise, `forks` has a place {after, tails, seen}: the id of the message before it ('' at the
// beginning), the lines that begin there, and which of them is seen. That one's tail lies in `messages`.

const idOf = (message) => (message ? (message.id ??= crypto.randomUUID()) : '');

const forkAt = (conversation, index) =>
  conversation.forks?.find((fork) => fork.after === (index > 0 ? conversation.messages[index - 1].id : ''));

// Cuts the line before a message, so that another one may come there; the old line is kept.
export function branch(conversation, index) {
  const after = idOf(conversation.messages[index - 1]);
  conversation.forks ??= [];
  let fork = conversation.forks.find((f) => f.after === after);
  if (!fork) conversation.forks.push((fork = {after, tails: [[]], seen: 0}));
  fork.tails[fork.seen] = conversation.messages.splice(index);
  fork.seen = fork.tails.push([]) - 1;
}

// How many lines begin with this message's place, and which of them is seen; null where it is the only one.
export function choices(conversation, index) {
  const fork = forkAt(conversation, index);
  return fork && fork.tails.length > 1 ? {seen: fork.seen, count: fork.tails.length} : null;
}

// Shows the line that is `step` further.
export function choose(conversation, index, step) {
  const fork = forkAt(conversation, index), next = fork.seen + step;
  if (next < 0 || next >= fork.tails.length) return;
  fork.tails[fork.seen] = conversation.messages.splice(index);
  conversation.messages.push(...fork.tails[next]);
  fork.tails[next] = [];
  fork.seen = next;
}
