// Clicks through every view of `smelt viz` in a browser without a screen, and keeps pictures of them.
//   node viz.mjs FOLDER_FOR_PICTURES KIND=PAGE...
// A page is a file that --out wrote, or an address. Kinds: `views` has all of them; `compare` two recordings; `served`
// has a model; `many` 1,000 kernels; `hostile` markup for names; `faults` passes whose graphs break the rules; `trace`
// nothing but tracks, `dump` nothing but kernels.
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [pictures, ...pages] = process.argv.slice(2);
const { views, compare, hostile, served, many, faults, trace, dump } = Object.fromEntries(
  pages.map((page) => [page.slice(0, page.indexOf("=")), page.slice(page.indexOf("=") + 1)]),
);
const kSchemes = ["light", "dark"];
const address = (where) => (where.startsWith("http") ? where : pathToFileURL(where).href);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});

async function open(where, options) {
  const page = await (await browser.newContext({ viewport: { width: 1400, height: 900 }, ...options })).newPage();
  page.on("pageerror", (error) => assert.fail(`the page failed: ${error}`));
  page.on("console", (message) => assert.notEqual(message.type(), "error", message.text()));
  page.on("dialog", () => assert.fail("a script ran"));
  page.on("request", (request) =>
    assert.ok(request.url().startsWith("data:") || request.url().startsWith(address(where)), request.url()),
  );
  await page.goto(address(where));
  await page.locator("#tabs button").first().waitFor();
  return page;
}

const isFine = async (page) => assert.equal(await page.locator("[role=alert]").count(), 0);
const tab = async (page, number, id) => {
  await page.keyboard.press(String(number));
  await page.waitForFunction((id) => document.querySelector(`[data-view=${id}][aria-selected=true]`), id);
  await isFine(page);
};

const pictureOf = (page, colorScheme) => (name) =>
  page.screenshot({ path: `${pictures}/viz-${name}-${colorScheme}.png` });

async function clickThrough(where, colorScheme) {
  const page = await open(where, { colorScheme });
  const picture = pictureOf(page, colorScheme);

  // a block, its graph, a fold opened, a search in it
  assert.ok((await page.locator(".blocks rect").count()) >= 4);
  await page.locator(".graph .box").first().waitFor();
  await picture("graph");
  const folded = await page.locator(".graph .box").count();
  await page.locator(".graph .box", { hasText: ".cpp:" }).first().focus();
  await page.keyboard.press("Enter");
  assert.ok((await page.locator(".graph .box").count()) >= folded);
  await page.keyboard.press("/");
  await page.keyboard.type("attn");
  assert.ok((await page.locator(".graph .box.found").count()) >= 1);
  await page.keyboard.press("Escape");
  await picture("model");
  await page.keyboard.press("ArrowRight");
  await page.locator("rect.picked").waitFor();

  // passes one after the other, in a kernel; each pass but the first shows what is new
  await tab(page, 2, "rewrites");
  await page.selectOption("select", { index: (await page.locator("select option").count()) - 1 });
  for (let i = 0; i < 5; ++i) await page.keyboard.press("ArrowRight");
  await page.locator("b", { hasText: "options" }).waitFor();
  await page.locator(".code .row.added").first().waitFor();
  await picture("rewrites");

  await tab(page, 3, "schedule");
  assert.ok((await page.locator(".badge.memory").count()) >= 1);
  await picture("schedule");

  // a kernel by its name, with a line of the program linked to the source
  await tab(page, 4, "kernel");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.locator(".row.picked").waitFor();
  await page.locator("[aria-label=program] .row", { hasText: "= mul" }).first().click();
  assert.ok((await page.locator(".row.linked").count()) >= 2);
  await picture("kernel");
  await page.getByRole("button", { name: "Options" }).click();
  await page.locator("th", { hasText: "what became of it" }).first().waitFor();
  await page.getByRole("button", { name: "Options" }).click();
  await page.keyboard.press("/");
  await page.keyboard.type("no kernel has this name");
  assert.equal(await page.locator(".list .row").count(), 0);
  await page.keyboard.press("Control+A");
  await page.keyboard.press("Delete");
  await page.keyboard.press("Escape");

  // a brush, keys, a kernel under the pointer
  await tab(page, 5, "timeline");
  if (await page.locator("canvas").count()) {
    const box = await page.locator(".timeline canvas").boundingBox();
    await page.mouse.move(box.x + 300, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + 420, box.y + 40, { steps: 4 });
    await page.mouse.up();
    await page.keyboard.press("+");
    await page.keyboard.press("ArrowRight");
    await picture("timeline");
    await page.selectOption("select", "start");
    await page.locator("td", { hasText: "compiling" }).waitFor();
    await picture("start");
  }
  await tab(page, 6, "search");
  if (await page.locator(".scatter").count()) {
    const dots = await page.locator(".scatter circle").count();
    assert.ok(dots >= 2);
    await page.keyboard.press("ArrowDown");
    await page.locator("[aria-label=trials]").focus();
    await page.keyboard.press("Home");
    await page.locator(".scatter circle.picked").waitFor();
    await picture("search");
    await page.goBack();
  }
  await tab(page, 7, "compare");
  await page.keyboard.press("Backspace");
  await page.keyboard.press("Backspace");
  await page.waitForFunction(() => document.querySelector("[data-view=timeline][aria-selected=true]"));
  const before = await page.evaluate(() => document.documentElement.dataset.theme);
  assert.equal(before, colorScheme);
  await page.keyboard.press("t");
  assert.notEqual(await page.evaluate(() => document.documentElement.dataset.theme), before);
  await page.keyboard.press("?");
  assert.ok(await page.locator("#help").isVisible());
  await page.close();
}

// Two recordings: the largest change is shown first.
async function clickThroughCompare(where, colorScheme) {
  const page = await open(where, { colorScheme });
  await tab(page, 7, "compare");
  await page.locator(".list .row.picked").waitFor();
  await page.keyboard.press("ArrowDown");
  await pictureOf(page, colorScheme)("compare");
  await page.close();
}

// Questions of the page while it is served.
async function askServed(where, colorScheme) {
  const page = await open(where, { colorScheme });
  await tab(page, 4, "kernel");
  await page.getByRole("button", { name: "What if" }).click();
  const options = page.locator(".what-if input").first();
  await options.press("Enter");
  await page.locator(".what-if li", { hasText: "right:" }).waitFor();
  await options.fill("local(o99,16)");
  await options.press("Enter");
  await page.locator(".what-if li .bad").waitFor();
  await page.getByRole("button", { name: "its texts" }).click();
  await page.getByRole("button", { name: "back to the texts" }).click();
  await pictureOf(page, colorScheme)("whatif");
  await page.close();
}

// Events of a trace as flames, of which one is looked at closely.
async function clickThroughTrace(where, colorScheme) {
  const page = await open(where, { colorScheme });
  await tab(page, 5, "timeline");
  await page.locator(".timeline canvas").waitFor();
  await pictureOf(page, colorScheme)("trace");
  for (let i = 0; i < 4; ++i) await page.keyboard.press("+");
  await pictureOf(page, colorScheme)("trace-near");
  for (const [number, id] of [[1, "model"], [2, "rewrites"], [3, "schedule"], [4, "kernel"], [6, "search"]]) // prettier-ignore
    await tab(page, number, id);
  await page.close();
}

// Kernels without a model: their texts and their passes.
async function clickThroughDump(where, colorScheme) {
  const page = await open(where, { colorScheme });
  await tab(page, 4, "kernel");
  await page.locator("[aria-label=program] .row", { hasText: "= mul" }).first().waitFor();
  await pictureOf(page, colorScheme)("dump");
  await tab(page, 2, "rewrites");
  await page.locator(".code .row").first().waitFor();
  for (const [number, id] of [[1, "model"], [3, "schedule"], [5, "timeline"], [6, "search"]]) // prettier-ignore
    await tab(page, number, id);
  await page.close();
}

// What breaks the rules of its phase is said at its pass, of a segment and of a kernel, and leads to the node.
async function findFaults(where, colorScheme) {
  const page = await open(where, { colorScheme });
  for (const subject of ["s0", "k0"]) {
    await tab(page, 2, "rewrites");
    await page.selectOption("select", subject);
    await page.locator(".fault", { hasText: "Verification: " }).waitFor();
    await page.locator(".list .bad").first().waitFor();
    await page.locator(".row.at-fault").waitFor();
    await page.locator(".fault button").click();
    await page.locator(".row.at-fault.linked").waitFor();
    await pictureOf(page, colorScheme)(`fault-${subject[0]}`);
  }
  await page.close();
}

for (const colorScheme of kSchemes) {
  if (views) await clickThrough(views, colorScheme);
  if (compare) await clickThroughCompare(compare, colorScheme);
  if (served) await askServed(served, colorScheme);
  if (trace) await clickThroughTrace(trace, colorScheme);
  if (dump) await clickThroughDump(dump, colorScheme);
  if (faults) await findFaults(faults, colorScheme);
}
// Of 1,000 kernels only those in sight are elements.
if (many) {
  const page = await open(many);
  await tab(page, 4, "kernel");
  const rows = page.locator("[aria-label=kernels] .row");
  await rows.first().waitFor();
  assert.ok((await rows.count()) < 60);
  await page.locator("[aria-label=kernels]").focus();
  await page.keyboard.press("End");
  await page.locator("[aria-label=kernels] .row.picked").waitFor();
  assert.ok((await rows.count()) < 60);
  await page.keyboard.press("Home");
  await tab(page, 5, "timeline");
  assert.ok((await page.locator("main *").count()) < 500);
}
if (hostile) {
  const page = await open(hostile);
  for (const [number, id] of [
    [1, "model"],
    [2, "rewrites"],
    [3, "schedule"],
    [4, "kernel"],
    [5, "timeline"],
    [6, "search"],
  ])
    await tab(page, number, id);
  assert.equal(await page.locator("main img, main script, main iframe").count(), 0);
  assert.equal(await page.evaluate(() => window.broken), undefined);
}
await browser.close();
console.log("every view was seen");
