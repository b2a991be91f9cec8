"use strict";
const $ = id => document.getElementById(id);
let data, chosen = "";
function el(tag, text, cls) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (cls) e.className = cls;
  return e;
}
function time(ns) {
  for (const [n, u] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]]) if (ns >= n) return (ns / n).toPrecision(3) + " " + u;
  return Math.round(ns) + " ns";
}
function unit(label) { const e = data.events.find(e => e.label === label); return e && e.unit; }
function show(v, label) {
  if (v === undefined || v === null) return "";
  if (unit(label) === "ns") return time(v);
  return v >= 1000 || Number.isInteger(v) ? Math.round(v).toLocaleString("en") : v.toFixed(2);
}
// A head is a text, or [text, the text on phones, where it stands beside each value, and the title].
function table(head, rows) {
  const t = el("table"), h = t.createTHead().insertRow(), body = t.createTBody(), heads = head.map(x => [].concat(x));
  for (const [text, , title] of heads) {
    const th = h.appendChild(el("th", text));
    th.scope = "col";
    if (title) th.title = title;
  }
  for (const r of rows) {
    const tr = body.insertRow();
    r.forEach((x, i) => { tr.appendChild(x instanceof Node ? x : el("td", x)).dataset.head = heads[i][1] || heads[i][0]; });
  }
  return rows.length ? t : el("p", "none yet", "soft");
}
function put(id, node) { $(id).replaceChildren(node); }
function bar(share) {
  const td = el("td", undefined, "share"), b = td.appendChild(el("span", undefined, "bar"));
  b.style.width = Math.min(100, Math.max(.6, 100 * share)) + "%";
  return td;
}
function path(text) { const td = el("td", text, "path"); td.title = text; return td; }
function percent(a, b) { return b ? (100 * a / b).toFixed(1) + " %" : ""; }
function draw() {
  const counted = data.events.filter(e => !e.why).map(e => e.label);
  if ($("event").options.length !== counted.length) $("event").replaceChildren(...counted.map(l => new Option(l, l)));
  if (!counted.includes(chosen)) chosen = counted.includes("task-clock") ? "task-clock" : counted[0];
  $("event").value = chosen;
  options($("only"), ["", ...data.routes.map(r => r.name)], ["all", ...data.routes.map(r => r.name)]);
  $("state").textContent = (data.running ? "counting " + (data.sample > 1 ? "1 of " + data.sample + " requests" : "every request")
    + ", from " + data.source + " events" : "stopped") + "; answered by worker " + data.worker;
  if (data.refused) $("state").textContent += ". The lua_shared_dict refuses the counts (" + data.refused + "): make it larger";
  $("toggle").hidden = false;
  $("toggle").textContent = data.running ? "stop" : "start";
  const whole = data.whole ? data.whole[chosen] : 0;
  const routes = data.routes.slice().sort((a, b) => b.sum[chosen] - a.sum[chosen]);
  const shares = routes.map(r => [r.name, r.sum[chosen]]);
  if (data.unattributed) shares.push(["unattributed: nginx itself, and Lua that no hook knows", data.unattributed[chosen]]);
  put("shares", table([chosen, "total", "share", ""],
    shares.map(([n, v]) => [path(n), show(v, chosen), percent(v, whole), bar(whole ? v / whole : 0)])));
  put("routes", table(["route", "requests", ...counted.flatMap(l => [l, ["p99", l + " p99", "99 % of the requests are below"]])],
    routes.map(r => [path(r.name), r.requests.toLocaleString("en"),
      ...counted.flatMap(l => [show(r.requests ? r.sum[l] / r.requests : 0, l), show(r.p99[l], l)])])));
  const phases = data.phases.filter(p => routes.some(r => r.phases[p]));
  $("phases_of").textContent = "Phases, " + chosen + " per request";
  put("phases", table(["route", ...phases], routes.map(r =>
    [path(r.name), ...phases.map(p => r.phases[p] ? show(r.phases[p][chosen] / r.requests, chosen) : "")])));
  put("slow", table(["request", "when", "status", "took", ...counted], data.slow.map(s =>
    [path(s.method + " " + s.uri), new Date(1000 * s.at).toLocaleTimeString(), s.status, (1000 * s.seconds).toFixed(0) + " ms",
      ...counted.map(l => show(l === "lua" ? s.lua_ns : s.counts[l], l))])));
}
function options(select, values, names) {
  if (select.options.length === values.length && values.every((v, i) => v === select.options[i].value)) return;
  const before = select.value;
  select.replaceChildren(...values.map((v, i) => new Option(names ? names[i] : v, v)));
  if (values.includes(before)) select.value = before;
}
function link() {
  const route = $("route").value ? "&route=" + encodeURIComponent($("route").value) : "";
  for (const [id, form] of [["waiting", "flamegraph"], ["folded", "folded"], ["pprof", "pprof"], ["speedscope", "speedscope"]])
    $(id).href = "?waits=" + form + route;
}
function drawWaits() {
  $("waits").hidden = !data.waits;
  $("blocked").hidden = !data.blocked;
  $("heap").hidden = !data.heap;
  if (data.waits) {
    const names = data.routes.map(r => r.name);
    options($("route"), ["", ...names], ["all", ...names]);
    link();
    put("waitrows", table(["route", "phase", "for", "at", "count", "waited", "late", "longest below"], data.waits.map(w =>
      [path(w.route), w.phase, path((w.kind + " " + w.peer).trim()), path(w.line), w.count.toLocaleString("en"), time(w.waiting_ns),
        time(w.late_ns), time(w.longest_ns)])));
  }
  if (data.blocked) put("blockedrows", table(["request", "when", "phase", "took", "at", "in the call", "counts"], data.blocked.map(b =>
    [path(b.uri || b.route), new Date(1000 * b.at).toLocaleTimeString(), b.phase, b.wall_ns ? time(b.wall_ns) : "",
      path((Array.isArray(b.lines) ? b.lines : []).join(" < ")), b.call || "",
      el("td", Object.entries(b.counts).map(([l, v]) => l + " " + show(v, l)).join(", "), "long")])));
}
async function load() {
  try {
    const answer = await fetch("?format=json");
    if (!answer.ok) throw await answer.text();
    data = await answer.json(); draw(); drawWaits();
  }
  catch (e) { $("state").textContent = "no answer: " + e; }
}
// A configured token is not in the page: it is asked for once.
let secret;
function token() { return data.secret ? secret = secret || prompt("token") || "" : data.token; }
// A link cannot send the token.
async function open_profile(url) {
  if (!data.secret) { window.open(url); return; }
  const answer = await fetch(url, {headers: {"X-Perf-Token": token()}});
  if (!answer.ok) { secret = undefined; alert(await answer.text()); return; }
  const link = document.createElement("a"), file = /filename="(.*)"/.exec(answer.headers.get("Content-Disposition"));
  link.href = URL.createObjectURL(await answer.blob());
  if (file) link.download = file[1]; else link.target = "_blank";
  link.click();
}
$("event").onchange = e => { chosen = e.target.value; draw(); };
$("route").onchange = link;
$("toggle").onclick = async () => {
  const answer = await fetch("?do=" + (data.running ? "stop" : "start"), {method: "POST", headers: {"X-Perf-Token": token()}});
  if (!answer.ok) { secret = undefined; alert(await answer.text()); }
  load();
};
$("flame").onclick = () => {
  const parts = {flame: chosen === "lua" ? "task-clock" : chosen, seconds: 2, as: $("as").value};
  for (const [id, name] of [["workers", "workers"], ["only", "route"]]) if ($(id).value) parts[name] = $(id).value;
  open_profile("?" + new URLSearchParams(parts));
};
for (const id of ["waiting", "folded", "pprof", "speedscope"])
  $(id).onclick = e => { if (data.secret) { e.preventDefault(); open_profile(e.target.href); } };
load();
setInterval(() => { if (!document.hidden) load(); }, 2000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) load(); });
