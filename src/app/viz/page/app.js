// The page: reads its recordings, shows the view that the address names (#kernel/NAME), and answers keys.
import { countText, el, timeText } from "./dom.js";
import { Recording } from "./data.js";
import { modelView } from "./model.js";
import { rewritesView } from "./rewrites.js";
import { scheduleView } from "./schedule.js";
import { kernelView } from "./kernel.js";
import { timelineView } from "./timeline.js";
import { searchView } from "./search.js";
import { compareView } from "./compare.js";

const views = [modelView, rewritesView, scheduleView, kernelView, timelineView, searchView, compareView];
const byId = (id) => document.getElementById(id);
let recordings = [],
  current = null;

function placeNow() {
  try {
    return location.hash.slice(1).split("/").map(decodeURIComponent);
  } catch {
    return ["model"];
  }
}

function go(...place) {
  const hash = `#${place.map(encodeURIComponent).join("/")}`;
  if (location.hash !== hash) history.pushState(null, "", hash);
  show();
}

function fail(error) {
  byId("view").replaceChildren(
    el("div", { class: "empty bad", role: "alert" }, `This recording cannot be shown: ${error.message}`),
  );
  current = null;
}

// Focus stays in a list that the new view has, too.
function show() {
  const [id, ...place] = placeNow(),
    view = views.find((v) => v.id === id) ?? modelView,
    root = byId("view");
  const focus = document.activeElement?.closest?.(".list")?.getAttribute("aria-label"),
    scrolled = {};
  for (const list of root.querySelectorAll(".list")) scrolled[list.getAttribute("aria-label")] = list.scrollTop;
  byId("tip").hidden = true;
  for (const tab of byId("tabs").children) tab.setAttribute("aria-selected", String(tab.dataset.view === view.id));
  root.replaceChildren();
  document.title = `${view.title} – ${recordings.at(-1).name} – smelt viz`;
  try {
    current = view.render(root, { recording: recordings.at(-1), recordings, place, go }) ?? null;
  } catch (error) {
    fail(error);
  }
  requestAnimationFrame(() => {
    for (const list of root.querySelectorAll(".list")) {
      const label = list.getAttribute("aria-label");
      if (label in scrolled && list.scrollTop === 0) list.scrollTop = scrolled[label];
      if (label === focus) list.focus({ preventScroll: true });
    }
  });
}

function key(event) {
  const field = event.target.closest?.("input, select, textarea");
  if (event.key === "Escape") {
    field?.blur();
    byId("tip").hidden = true;
    return;
  }
  if (field || event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  const view = views[Number(event.key) - 1];
  if (current?.key?.(event)) byId("tip").hidden = true;
  else if (view) go(view.id);
  else if (event.key === "/") (document.querySelector("main .search") ?? byId("tabs")).focus();
  else if (event.key === "?") byId("help").showModal();
  else if (event.key.toLowerCase() === "t") toggleTheme();
  else if (event.key === "Backspace") history.back();
  else if (["ArrowDown", "ArrowUp", "j", "k"].includes(event.key)) {
    const list = document.querySelector("main .list");
    if (!list) return;
    list.focus();
    list.dispatchEvent(new KeyboardEvent("keydown", { key: event.key }));
  } else return;
  event.preventDefault();
}

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}
function toggleTheme() {
  setTheme(document.documentElement.dataset.theme !== "dark");
  show();
}

function begin() {
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
  for (const [i, view] of views.entries())
    byId("tabs").append(
      el(
        "button",
        { role: "tab", "data-view": view.id, onclick: () => go(view.id) },
        el("kbd", {}, String(i + 1)),
        view.title,
      ),
    );
  byId("theme").addEventListener("click", toggleTheme);
  byId("help-button").addEventListener("click", () => byId("help").showModal());
  addEventListener("popstate", show);
  addEventListener("keydown", key);
  try {
    recordings = JSON.parse(byId("recordings").textContent).map((json) => new Recording(json));
    if (!recordings.length) throw new Error("there is none");
  } catch (error) {
    return fail(error);
  }
  const recording = recordings.at(-1);
  byId("name").textContent = recordings.map((r) => r.name).join(" → ");
  const workers = `${recording.threads} ${recording.threads === 1 ? "worker" : "workers"}`;
  const device = recording.device || recording.machine;
  byId("device").textContent = [
    device,
    recording.estimated && recording.profile && "estimated",
    recording.plans.length && workers,
  ]
    .filter(Boolean)
    .join(", ");
  byId("figures").textContent = (recording.profile?.plans ?? [])
    .map((plan) => {
      const seconds = plan.kernels.reduce((sum, k) => sum + k.seconds, 0);
      return `${plan.name} ${timeText(seconds)}, ${countText(plan.tokens / seconds)} tokens/s`;
    })
    .join("; ");
  show();
}

begin();
