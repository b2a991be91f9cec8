--- The status page: one file of HTML that draws what its own address gives with ?format=json, again every two seconds.
-- Nothing comes from elsewhere, and what requests contain is only ever text in it.
-- @module resty.perf.page
local M = {}

M.html = [==[<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>resty.perf</title>
<style>
:root { --ink: #1d2530; --soft: #667085; --line: #e3e7ee; --bar: #3b7dd8; --bg: #f6f7f9; --card: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --soft: #98a2b3; --line: #303846; --bar: #5b9bf3; --bg: #14181f; --card: #1c222c; } }
* { box-sizing: border-box; }
body { font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--bg); margin: 0 auto; padding: 1.2rem;
  max-width: 76rem; }
h1 { font-size: 1.25rem; margin: 0; } h2 { font-size: 1rem; margin: 0 0 .5rem; }
header { display: flex; gap: 1rem; align-items: baseline; flex-wrap: wrap; margin-bottom: 1rem; }
header span { color: var(--soft); } header div { margin-left: auto; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .9rem 1rem; margin-bottom: 1rem;
  overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .2rem .6rem; border-top: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 500; border-top: 0; } th:first-child, td:first-child { text-align: left; padding-left: 0; }
td.path { max-width: 24rem; overflow: hidden; text-overflow: ellipsis; }
.bar { display: inline-block; height: .65em; background: var(--bar); border-radius: 2px; vertical-align: baseline; }
.soft { color: var(--soft); } button, select { font: inherit; padding: .15rem .6rem; }
</style></head><body>
<header><h1>resty.perf</h1><span id="state">loading</span>
<div><label>event <select id="event"></select></label>
<button id="flame" title="profiles the worker that answers, for two seconds">flame graph</button>
<button id="toggle" hidden></button></div></header>
<section><h2>Where it went</h2><div id="shares"></div></section>
<section><h2>Routes, per request</h2><div id="routes"></div></section>
<section><h2>Phases</h2><div id="phases"></div></section>
<section><h2>Slow requests, the newest first</h2><div id="slow"></div></section>
<script>
"use strict";
const $ = id => document.getElementById(id);
let data, chosen = "";
function el(tag, text, cls) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (cls) e.className = cls;
  return e;
}
function unit(label) { const e = data.events.find(e => e.label === label); return e && e.unit; }
function show(v, label) {
  if (v === undefined || v === null) return "";
  if (unit(label) === "ns") {
    for (const [n, u] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]]) if (v >= n) return (v / n).toPrecision(3) + " " + u;
    return Math.round(v) + " ns";
  }
  return v >= 1000 || Number.isInteger(v) ? Math.round(v).toLocaleString("en") : v.toFixed(2);
}
function table(head, rows) {
  const t = el("table"), h = t.appendChild(el("tr"));
  head.forEach(x => h.appendChild(el("th", x)));
  rows.forEach(r => { const tr = t.appendChild(el("tr"));
    r.forEach(x => tr.appendChild(x instanceof Node ? x : el("td", x))); });
  return rows.length ? t : el("p", "none yet", "soft");
}
function put(id, node) { $(id).replaceChildren(node); }
function bar(share) {
  const td = el("td"), b = td.appendChild(el("span", undefined, "bar"));
  b.style.width = Math.max(1, 160 * share) + "px";
  td.style.textAlign = "left"; td.style.width = "170px";
  return td;
}
function path(text) { const td = el("td", text, "path"); td.title = text; return td; }
function percent(a, b) { return b ? (100 * a / b).toFixed(1) + " %" : ""; }
function draw() {
  const counted = data.events.filter(e => !e.why).map(e => e.label);
  if ($("event").options.length !== counted.length) $("event").replaceChildren(...counted.map(l => new Option(l, l)));
  if (!counted.includes(chosen)) chosen = counted.includes("task-clock") ? "task-clock" : counted[0];
  $("event").value = chosen;
  $("state").textContent = (data.running ? "counting " + (data.sample > 1 ? "1 of " + data.sample + " requests" : "every request")
    + ", from " + data.source + " events" : "stopped") + "; answered by worker " + data.worker;
  $("toggle").hidden = false;
  $("toggle").textContent = data.running ? "stop" : "start";
  const whole = data.whole ? data.whole[chosen] : 0;
  const routes = data.routes.slice().sort((a, b) => b.sum[chosen] - a.sum[chosen]);
  const shares = routes.map(r => [r.name, r.sum[chosen]]);
  if (data.unattributed) shares.push(["unattributed: nginx itself, and Lua that no hook knows", data.unattributed[chosen]]);
  put("shares", table([chosen, "total", "share", ""],
    shares.map(([n, v]) => [path(n), show(v, chosen), percent(v, whole), bar(whole ? v / whole : 0)])));
  put("routes", table(["route", "requests", ...counted.flatMap(l => [l, "99 % below"])],
    routes.map(r => [path(r.name), r.requests.toLocaleString("en"),
      ...counted.flatMap(l => [show(r.requests ? r.sum[l] / r.requests : 0, l), show(r.p99[l], l)])])));
  const phases = data.phases.filter(p => routes.some(r => r.phases[p]));
  put("phases", table(["route, " + chosen + " per request", ...phases], routes.map(r =>
    [path(r.name), ...phases.map(p => r.phases[p] ? show(r.phases[p][chosen] / r.requests, chosen) : "")])));
  put("slow", table(["request", "when", "status", "took", ...counted], data.slow.map(s =>
    [path(s.method + " " + s.uri), new Date(1000 * s.at).toLocaleTimeString(), s.status, (1000 * s.seconds).toFixed(0) + " ms",
      ...counted.map(l => show(l === "lua" ? s.lua_ns : s.counts[l], l))])));
}
async function load() {
  try { data = await (await fetch("?format=json")).json(); draw(); }
  catch (e) { $("state").textContent = "no answer: " + e; }
}
$("event").onchange = e => { chosen = e.target.value; draw(); };
$("toggle").onclick = async () => { await fetch("?do=" + (data.running ? "stop" : "start"), {method: "POST"}); load(); };
$("flame").onclick = () => window.open("?flame=" + encodeURIComponent(chosen === "lua" ? "task-clock" : chosen) + "&seconds=2");
load();
setInterval(load, 2000);
</script></body></html>
]==]

return M
