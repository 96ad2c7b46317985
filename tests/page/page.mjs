// Clicks through the page of `smelt serve` in a browser without a screen, and keeps pictures of it.
//   SMELT_URL=http://127.0.0.1:8080 SMELT_KEY=... node page.mjs FOLDER_FOR_PICTURES
import assert from "node:assert/strict";
import { chromium } from "playwright-core";
import { payloads, tracesOf } from "./payloads.mjs";

const url = process.env.SMELT_URL, key = process.env.SMELT_KEY, pictures = process.argv[2];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

// A page whose scripts and requests are watched: nothing may fail, and nothing may come from elsewhere.
async function open(options) {
  const context = await browser.newContext({ acceptDownloads: true, ...options });
  const page = await context.newPage();
  page.on("pageerror", (error) => assert.fail(`the page failed: ${error}`));
  page.on("request", (request) => assert.ok(/^(data|blob):/.test(request.url()) || request.url().startsWith(url), request.url()));
  await page.goto(url);
  return page;
}

const answers = (page) => page.locator("article.assistant .body");
const isIdle = (page) => page.locator("#send").waitFor({ state: "visible", timeout: 60_000 });
const picture = (page, name) => page.screenshot({ path: `${pictures}/${name}.png` });

async function ask(page, text) {
  await page.fill("#input", text);
  await page.keyboard.press("Enter");
}

async function set(page, values) {
  await page.click("#open-settings");
  for (const [id, value] of Object.entries(values))
    id === "theme" ? await page.selectOption("#theme", value) : await page.fill(`#${id}`, value);
  await page.click("#settings button[value=close]");
}

const page = await open({ viewport: { width: 1100, height: 760 }, colorScheme: "light" });
await page.getByText("Authorization").first().waitFor(); // the model's place says that a key is missing
await set(page, { key, max_tokens: "40", temperature: "0" });
await page.locator("#model", { hasText: "tiny" }).waitFor();

// an answer, and the panel beside it
await page.click("#open-live");
await ask(page, "Tell me about Lily.");
await isIdle(page);
assert.equal(await answers(page).count(), 1);
const first = await answers(page).first().innerText();
assert.ok(first.length > 20, first);
await page.locator("#figures", { hasText: "tokens/s" }).waitFor();
await page.locator("#live-first", { hasText: "s" }).waitFor();
await page.locator("#live-roof", { hasText: "%" }).waitFor();
await picture(page, "light");

// the same again, an edit, a second turn
await page.getByRole("button", { name: "Again" }).click();
await isIdle(page);
assert.equal(await answers(page).first().innerText(), first);
assert.equal(await page.locator(".place").innerText(), "2 of 2");
await page.getByRole("button", { name: "Edit" }).click();
assert.equal(await page.inputValue("#input"), "Tell me about Lily.");
await page.keyboard.press("Escape");
assert.equal(await page.inputValue("#input"), "");
await page.getByRole("button", { name: "Edit" }).click();
await ask(page, "Tell me about **Tim**.\n<img src=x onerror=alert(1)>");
await isIdle(page);
await ask(page, "And then?");
await isIdle(page);
assert.equal(await answers(page).count(), 2);
assert.equal(await page.locator("#messages img, #messages script").count(), 0);

// the branches that this made: of the question, and within the first of the answer
const place = (page) => page.locator(".place").first();
assert.equal(await place(page).innerText(), "2 of 2");
await page.getByTitle("The branch before").first().click();
assert.equal(await answers(page).count(), 1);
assert.deepEqual(await page.locator(".place").allInnerTexts(), ["1 of 2", "2 of 2"]);
assert.match(await page.locator(".message.user").innerText(), /Lily/);
await page.getByTitle("The next branch").first().click();
assert.equal(await answers(page).count(), 2);
assert.match(await page.locator(".message.user").first().innerText(), /Tim/);

// a stop, by the button and by Escape: within the page, as soon as it is offered, since a story of the small model may
// be told before a click arrives
for (const how of ["button", "Escape"]) {
  await set(page, { max_tokens: "1500" });
  await page.evaluate((how) => {
    const button = document.querySelector("#stop");
    window.stopped = 0;
    const watch = new MutationObserver(() => {
      if (button.hidden) return;
      watch.disconnect();
      window.stopped = 1;
      if (how === "button") button.click();
      else document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    });
    watch.observe(button, { attributes: true });
  }, how);
  await ask(page, "Tell me a long story.");
  await isIdle(page);
  assert.equal(await page.evaluate(() => window.stopped), 1);
  assert.equal(await page.locator(".error").count(), 0);
}

// conversations: a new one, the search, what is kept over a reload, taking one away
await set(page, { max_tokens: "20" });
await page.keyboard.press("Control+Shift+O");
await ask(page, "Something about dogs.");
await isIdle(page);
assert.equal(await page.locator(".entry").count(), 2);
await page.fill("#search", "dogs");
assert.equal(await page.locator(".entry").count(), 1);
await page.fill("#search", "");
await page.reload();
assert.equal(await page.locator(".entry").count(), 2);
const [download] = await Promise.all([page.waitForEvent("download"), page.click("#export")]);
const kept = await download.path();
page.once("dialog", (dialog) => dialog.accept());
await page.locator(".entry .remove").first().click();
assert.equal(await page.locator(".entry").count(), 1);
await page.setInputFiles("#import", kept);
await page.waitForFunction(() => document.querySelectorAll(".entry").length === 2);

// what a larger model writes: thoughts, formulas, code, calls of tools whose results go back
const events = (...deltas) => deltas.map((delta) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`).join("") + "data: [DONE]\n\n";
const stream = (...deltas) => ({ contentType: "text/event-stream", body: events(...deltas) });
const written = "Let $x_i^2 \\le \\frac{a+b}{2}$, costs $5 or $6:\n\n$$\\sum_{k=1}^n k = \\frac{n(n+1)}{2}$$\n\n" +
  "```python\ndef f(n):  # a sum\n    return \"s\" * 12\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
const call = { index: 0, id: "c1", function: { name: "weather", arguments: '{"city": "Rome", "days": 2}' } };
const requests = [];
await page.route("**/v1/chat/completions", (route) => {
  requests.push(route.request().postDataJSON());
  return route.fulfill(requests.length === 1 ? stream({ reasoning_content: "Hm, the weather." }, { content: written }, { tool_calls: [call] })
                                             : stream({ content: "Sunny." }));
});
await set(page, { tools: '[{"type": "function", "function": {"name": "weather"}}]' });
await page.click("#new");
await ask(page, "How is the weather?");
await isIdle(page);
assert.equal(requests[0].tools.length, 1);
assert.equal(await page.locator("details.thoughts div").isVisible(), false);
await page.locator("details.thoughts summary").click();
assert.equal(await page.locator("details.thoughts div").isVisible(), true);
assert.equal(await page.locator("span.maths").innerText(), "xi2 ≤ (a+b)/2");
assert.equal(await page.locator("div.maths").innerText(), "∑k=1n k = (n(n+1))/2");
assert.equal(await page.locator(".maths").count(), 2);
assert.deepEqual(await page.locator(".code .keyword").allInnerTexts(), ["def", "return"]);
assert.equal(await page.locator(".code .comment").innerText(), "# a sum");
assert.match(await page.locator(".call").innerText(), /weather\s+\{\s+"city": "Rome",\s+"days": 2\s+\}/);
await picture(page, "written");
await page.fill(".results textarea", "sunny, 30 degrees");
await page.getByRole("button", { name: "Give results" }).click();
await isIdle(page);
const result = requests[1].messages.at(-1);
assert.deepEqual([result.role, result.tool_call_id, result.content], ["tool", "c1", "sunny, 30 degrees"]);
assert.equal(requests[1].messages.at(-2).tool_calls[0].id, "c1");
assert.equal(await answers(page).last().innerText(), "Sunny.");
await set(page, { theme: "dark" });
await page.locator(".message.assistant").first().scrollIntoViewIfNeeded();
await picture(page, "written-dark");
await page.unroute("**/v1/chat/completions");
await set(page, { tools: "", theme: "" });

// what would be a script stays text: in questions and so in titles, in answers, in thoughts, in calls of tools
{
  const hostile = await open({ viewport: { width: 1100, height: 760 } });
  hostile.on("dialog", (dialog) => assert.fail(`a text ran as a script: ${dialog.message()}`));
  let payload;
  await hostile.route("**/v1/chat/completions", (route) =>
    route.fulfill(stream({ reasoning_content: payload }, { content: payload },
                         { tool_calls: [{ index: 0, id: payload, function: { name: payload, arguments: payload } }] })));
  for (payload of payloads) {
    await hostile.click("#new");
    await ask(hostile, payload);
    await isIdle(hostile);
    await hostile.locator("details.thoughts summary").click();
    assert.deepEqual(await tracesOf(hostile), [], payload);
  }
  assert.ok(payloads.length >= 150);
  assert.equal(await hostile.locator(".entry").count(), payloads.length);
  await hostile.reload(); // the same from what the browser kept
  assert.deepEqual(await tracesOf(hostile), []);
  await hostile.close();
}

// JSON by a schema, and what the server refuses
await set(page, { schema: '{"enum": ["yes", "no"]}' });
await page.click("#new");
await ask(page, "Is it so?");
await isIdle(page);
assert.match(await answers(page).first().innerText(), /^"(yes|no)"$/);
await set(page, { schema: '{"type": "nothing"}' });
await ask(page, "And now?");
await page.locator(".error").waitFor();
await set(page, { schema: "", theme: "dark" });
await page.click(".entry .name >> nth=1");
await page.click("#open-live");
await page.waitForTimeout(1500);
await picture(page, "dark");

// a phone
const phone = await open({ viewport: { width: 390, height: 780 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true });
await set(phone, { key, max_tokens: "60" });
await ask(phone, "Tell me about a cat.");
await isIdle(phone);
assert.ok(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page is wider than the phone");
await picture(phone, "phone");
await phone.click("#open-live");
await phone.click("#menu");
await phone.locator(".entry").waitFor();
await phone.waitForTimeout(300);
await picture(phone, "phone-side");
await phone.mouse.click(380, 400);
await phone.click("#open-settings");
await picture(phone, "phone-settings");

await browser.close();
console.log("the page works");
