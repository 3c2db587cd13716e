// The studio's page: tabs, the state of the program at the top, light or dark, and messages handed to the panels.

import { ChangePanel } from "./change_panel.js";
import { ComparePanel } from "./compare_panel.js";
import { Connection } from "./connection.js";
import { byId, h, number, plain } from "./dom.js";
import { GraphPanel } from "./graph_panel.js";
import { LearnPanel } from "./learn_panel.js";
import { MetricsPanel } from "./metrics_panel.js";
import { PipelinePanel } from "./pipeline_panel.js";
import { Store } from "./store.js";
import { TrainingPanel } from "./training_panel.js";

const token = new URLSearchParams(location.search).get("token") ?? "";
const withToken = (path) => {
  const address = new URL(path, location.href);
  address.search = new URLSearchParams({ token });
  return address;
};
const socketAddress = () => {
  const address = withToken("ws");
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  return address.href;
};

async function fetchJson(path) {
  const answer = await fetch(withToken(path));
  if (!answer.ok)
    throw new Error(
      answer.status === 403
        ? "The token in the address is not the program's: open the address that it printed."
        : `${path}: ${answer.status}`,
    );
  return answer.json();
}

const store = new Store(),
  ask = (...request) => connection.ask(...request);
const panels = {
  graph: new GraphPanel(store, ask),
  pipeline: new PipelinePanel(store, ask),
  training: new TrainingPanel(store),
  change: new ChangePanel(store, ask),
  compare: new ComparePanel(store, ask),
  metrics: new MetricsPanel(store, ask),
  learn: new LearnPanel(store, ask, fetchJson),
};

// ---- tabs

const tabs = [...document.querySelectorAll("[role=tab]")];
for (const [name, panel] of Object.entries(panels)) byId(`panel-${name}`).append(panel.element);

function openTab(name, takesFocus = false) {
  for (const tab of tabs) {
    const isOpen = tab.dataset.panel === name;
    tab.setAttribute("aria-selected", String(isOpen));
    tab.tabIndex = isOpen ? 0 : -1;
    byId(`panel-${tab.dataset.panel}`).hidden = !isOpen;
    if (isOpen) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (isOpen && takesFocus) tab.focus();
  }
  if (location.hash !== `#${name}`) history.replaceState(null, "", `#${name}`);
  panels[name].update?.();
}
for (const tab of tabs) {
  tab.addEventListener("click", () => openTab(tab.dataset.panel));
  tab.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(tab),
      to = {
        ArrowRight: (at + 1) % tabs.length,
        ArrowLeft: (at + tabs.length - 1) % tabs.length,
        Home: 0,
        End: tabs.length - 1,
      }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    openTab(tabs[to].dataset.panel, true);
  });
}
const fromAddress = () => (panels[location.hash.slice(1)] ? location.hash.slice(1) : "graph");
window.addEventListener("hashchange", () => {
  if (panels[location.hash.slice(1)]) openTab(location.hash.slice(1));
});

window.addEventListener("resize", () =>
  document.querySelector("[role=tab][aria-selected=true]").scrollIntoView({ block: "nearest", inline: "nearest" }),
);

// ---- light or dark

const scheme = byId("scheme"),
  dark = matchMedia("(prefers-color-scheme: dark)");
function setScheme(name) {
  document.documentElement.dataset.scheme = name;
  const isDark = name === "dark";
  scheme.textContent = isDark ? "☀" : "☾";
  scheme.setAttribute("aria-label", isDark ? "Light colours" : "Dark colours");
  scheme.title = scheme.getAttribute("aria-label");
}
dark.addEventListener("change", () => setScheme(dark.matches ? "dark" : "light"));
scheme.addEventListener("click", () =>
  setScheme(document.documentElement.dataset.scheme === "dark" ? "light" : "dark"),
);
setScheme(dark.matches ? "dark" : "light");

// ---- the state of the program

const WORDS = {
  waiting: "waiting for the first iteration",
  running: "running",
  paused: "paused",
  measuring: "measuring",
  ended: "has ended",
  failed: "failed",
  gone: "the program is gone",
  connecting: "connecting",
  refused: "not let in",
};
let link = "connecting";

function showStatus() {
  const { program, state } = store,
    over = program && ["ended", "failed"].includes(program.status) ? program.status : null;
  const status = link !== "connected" ? link : (over ?? state?.status ?? "waiting");
  const pill = byId("status");
  pill.dataset.status = status;
  if (pill.textContent !== WORDS[status]) pill.textContent = WORDS[status];
  byId("program").textContent = program?.name ?? "";
  document.title = program ? `${program.name} · Extempo studio` : "Extempo studio";
  const note = byId("note"),
    words =
      link === "gone"
        ? "The connection is lost: the program has ended or was killed. What it showed stays here; the page joins by itself when it runs again."
        : over
          ? program.message
          : "";
  note.hidden = !words;
  note.className = over === "failed" && link === "connected" ? "note bad" : "note";
  if (note.textContent !== words) note.textContent = words;
  const last = store.current?.records.at(-1),
    facts = [
      ["step", number(last?.step ?? state?.step)],
      ["epoch", number(last?.epoch ?? state?.epoch)],
      ["loss", number(plain(last?.loss))],
      ["lr", number(state?.lr?.[0])],
    ];
  byId("facts").replaceChildren(...facts.map(([name, value]) => h("span", {}, `${name} `, h("b", {}, value))));
}
let waiting = false;
const showStatusSoon = () => {
  if (!waiting) {
    waiting = true;
    setTimeout(() => {
      waiting = false;
      showStatus();
    }, 120);
  }
};
for (const type of ["hello", "state", "program", "steps", "history", "run", "error"]) store.on(type, showStatusSoon);

const connection = new Connection(socketAddress(), {
  onmessage: (message) => store.receive(message),
  onstate: (state) => {
    const wasEverIn = store.hello !== null;
    link = state === "connected" ? "connected" : wasEverIn ? "gone" : "connecting";
    showStatus();
    if (state === "lost" && !wasEverIn)
      fetchJson("api/state").catch((problem) => {
        link = "refused";
        showStatus();
        byId("note").hidden = false;
        byId("note").textContent = problem.message;
      });
  },
});

openTab(fromAddress());
showStatus();
