// What if: a kernel with other options, compiled, checked and timed by the program that serves the page.
import { el, empty } from "./dom.js";

const token = () => document.body.dataset.token;
const answers = new Map(); // of each kernel's name: [options, answer], the last one first

async function ask(kernel, options) {
  const response = await fetch("/what-if", {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${token()}` },
    body: JSON.stringify({ kernel, options }),
  });
  if (!response.ok) return { refused: (await response.text()).trim() };
  return response.json();
}

function verdict(answer) {
  if (answer.refused) return [el("span", { class: "bad" }, answer.refused)];
  const ratio = answer.before_us / answer.after_us;
  return [
    el("b", { class: "num" }, `${answer.after_us.toPrecision(3)} µs`),
    `, ${ratio.toFixed(2)} times as fast as now (${answer.before_us.toPrecision(3)} µs); `,
    `right: ${answer.judged} elements by the interpreter, ${answer.bytes.toLocaleString("en-US")} bytes like now`,
  ];
}

// What differs from the kernel as it is.
const changed = (kernel, options) =>
  options
    .map((text, nest) => (text === kernel.options[nest] ? null : `nest ${nest}: ${text || "none"}`))
    .filter(Boolean)
    .join(" | ") || "as it is";

function answerRow(kernel, options, answer, onShow) {
  return el(
    "li",
    {},
    el("code", {}, changed(kernel, options)),
    el("br"),
    verdict(answer),
    answer.refused ? null : [" ", el("button", { class: "link", onclick: () => onShow(answer) }, "its texts")],
  );
}

// `onShow`: given the texts of a kernel with other options.
export function whatIf(kernel, onShow) {
  if (!token())
    return empty(
      "Other options are compiled and timed while ",
      el("code", {}, "smelt viz -m MODEL"),
      " serves this page.",
    );
  const fields = kernel.options.map((options, nest) =>
    el("input", { class: "mono", value: options, spellcheck: "false", "aria-label": `options of nest ${nest}` }),
  );
  const button = el("button", { type: "submit" }, "Compile and time"),
    status = el("span", { class: "note", role: "status" }),
    list = el("ol", { class: "way", reversed: true });
  const draw = () =>
    list.replaceChildren(
      ...(answers.get(kernel.name) ?? []).map(([options, a]) => answerRow(kernel, options, a, onShow)),
    );
  const run = async (event) => {
    event.preventDefault();
    const options = fields.map((field) => field.value.trim());
    button.disabled = true;
    status.textContent = "compiling, checking, timing …";
    const answer = await ask(kernel.name, options).catch((error) => ({ refused: `no answer: ${error.message}` }));
    button.disabled = false;
    status.textContent = "";
    answers.set(kernel.name, [[options, answer], ...(answers.get(kernel.name) ?? [])]);
    draw();
  };
  const reset = () => fields.forEach((field, nest) => (field.value = kernel.options[nest]));
  draw();
  return el(
    "form",
    { class: "what-if", onsubmit: run },
    el("div", { class: "bar" }, button, el("button", { type: "button", onclick: reset }, "As it is"), status),
    list,
    el(
      "div",
      { class: "scroll" },
      fields.map((field, nest) => el("label", {}, el("small", {}, `nest ${nest}`), field)),
    ),
  );
}
