"""The page to try a model in a browser: one file that asks nobody but its own server, in light and dark."""

from __future__ import annotations

import base64
import hashlib

_STYLE = """
:root { --ink: #1d2430; --faint: #5d6675; --paper: #f6f7f9; --card: #ffffff; --line: #d9dde4; --accent: #1f6fb4;
  --on-accent: #ffffff; --code: #f1f3f6; --good: #226b3a; --bad: #a8322a; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --faint: #9aa5b5; --paper: #12161c; --card: #1a2028; --line: #35404e; --accent: #6db3f2;
    --on-accent: #0d1116; --code: #222a34; --good: #7fd19b; --bad: #ff9d94; }
}
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; color: var(--ink);
  background: var(--paper); margin: 0; }
main { max-width: 58rem; margin: 0 auto; padding: 2.2rem 1.25rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 0.3rem; }
p { margin: 0.3rem 0; } .faint { color: var(--faint); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 1.1rem 1.3rem;
  margin: 1.1rem 0; }
.row { display: flex; flex-wrap: wrap; gap: 0.8rem 1.2rem; align-items: end; }
label { display: block; font-weight: 600; font-size: 0.9rem; margin-bottom: 0.25rem; }
.row > div { flex: 1 1 14rem; }
select, input, textarea { width: 100%; font: inherit; color: inherit; background: var(--code);
  border: 1px solid var(--line); border-radius: 8px; padding: 0.45rem 0.6rem; }
textarea, pre, .signature { font: 0.88rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
select, input { height: 2.6rem; }
textarea { min-height: 9rem; resize: vertical; }
.signature { color: var(--faint); overflow-x: auto; white-space: pre; margin: 0.8rem 0; }
button { font: inherit; font-weight: 600; color: var(--on-accent); background: var(--accent); border: 0;
  border-radius: 8px; padding: 0.5rem 1.3rem; cursor: pointer; margin-top: 0.8rem; }
button:disabled { opacity: 0.6; cursor: progress; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
#status { margin-left: 0.9rem; } .good { color: var(--good); } .bad { color: var(--bad); }
pre { background: var(--code); border-radius: 8px; padding: 0.8rem 1rem; overflow: auto; max-height: 24rem;
  white-space: pre-wrap; overflow-wrap: anywhere; margin: 0.8rem 0 0; }
a { color: var(--accent); }
"""

_SCRIPT = """
"use strict";
const by = id => document.getElementById(id);
let models = [], bodies = {};

function headers(more) {
  const token = by("token").value.trim();
  return token ? { ...more, Authorization: "Bearer " + token } : { ...more };
}

function say(text, kind) {
  by("status").textContent = text;
  by("status").className = kind;
}

function chosen() { return models[by("model").selectedIndex]; }

function show() {
  const model = chosen();
  if (!model) return;
  const list = (title, types) => Object.entries(types).map(([name, type]) => title + "  " + name + ": " + type);
  const sizes = Object.entries(model.sizes).map(([name, [least, most]]) =>
    "size    " + name + ": " + least + (most === null ? " or more" : " to " + most));
  by("signature").textContent =
    [...list("input ", model.inputs), ...list("output", model.outputs), ...sizes].join("\\n");
  by("body").value = bodies["/predict/" + model.name + "/" + model.version] || "{}";
}

async function load() {
  try {
    const answer = await fetch("models", { headers: headers() });
    if (answer.status === 401) { say("Enter the server's token to see its models.", "bad"); return; }
    models = (await answer.json()).models;
    const paths = (await (await fetch("openapi.json", { headers: headers() })).json()).paths;
    for (const [path, entry] of Object.entries(paths)) {
      const content = entry.post && entry.post.requestBody && entry.post.requestBody.content;
      if (content) bodies[path] = pretty(content["application/json"].example);
    }
    by("model").replaceChildren(...models.map(model => new Option(model.name + ", version " + model.version)));
    say("", "");
    show();
  } catch (error) { say("The server does not answer: " + error.message, "bad"); }
}

function pretty(value) {
  const flat = JSON.stringify(value, null, 2);
  return flat.replace(/\\[[^\\[\\]{}]*\\]/g,
    inner => inner.replace(/\\s+/g, " ").replace("[ ", "[").replace(" ]", "]"));
}

async function run() {
  const model = chosen();
  if (!model) { load(); return; }
  by("run").disabled = true;
  say("running", "faint");
  const began = performance.now();
  try {
    const answer = await fetch("predict/" + model.name + "/" + model.version,
      { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: by("body").value });
    const text = await answer.text();
    const took = (performance.now() - began).toFixed(1) + " ms";
    let shown = text;
    try { shown = pretty(JSON.parse(text)); } catch (error) { /* shown as it is */ }
    by("result").textContent = shown;
    by("result").hidden = false;
    say(answer.status + " in " + took, answer.ok ? "good" : "bad");
  } catch (error) { say("The server does not answer: " + error.message, "bad"); }
  by("run").disabled = false;
}

by("model").addEventListener("change", show);
by("token").addEventListener("change", load);
by("run").addEventListener("click", run);
by("body").addEventListener("keydown", event => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
});
load();
"""

_BODY = """
<main>
<h1>Try a model</h1>
<p class="faint">One sample as JSON. Requests that come at the same time run as one batch, whatever their lengths.
The service is described in <a href="openapi.json">openapi.json</a>.</p>
<section>
<div class="row">
<div><label for="model">Model</label><select id="model"></select></div>
<div><label for="token">Token, if the server has one</label><input id="token" type="password" autocomplete="off"></div>
</div>
<div class="signature" id="signature"></div>
<label for="body">Request</label>
<textarea id="body" spellcheck="false"></textarea>
<button id="run" type="button">Predict</button><span id="status" role="status"></span>
<pre id="result" hidden aria-label="Answer" tabindex="0"></pre>
</section>
</main>
"""


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


PAGE = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    f'<link rel="icon" href="data:,">\n<title>Extempo: try a model</title>\n<style>{_STYLE}</style>\n</head>\n'
    f"<body>{_BODY}<script>{_SCRIPT}</script>\n</body>\n</html>\n"
)
# What a browser may load and run for this page: its own style and script, and answers of its own server.
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_hash(_STYLE)}'; script-src 'sha256-{_hash(_SCRIPT)}'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
