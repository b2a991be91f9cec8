"use strict";
const $ = id => document.getElementById(id), data = JSON.parse($("data").textContent);
const MOST = 200, DEEP = 26; // rows shown at once; steps of a path
// An object of the page; number 0 is the root.
const objects = data.objects.map(([owner, type, bytes, retained, shared, holder, step, follows, what, holders, owned, to, others, prefix], n) =>
  ({n, owner, type, bytes, retained, shared, holder, step, follows, what: what || type, holders, owned, to, others, prefix, children: [], from: []}));
for (const o of objects) {
  if (o.owner >= 0) objects[o.owner].children.push(o);
  for (let k = 0; k < o.to.length; k += 3) objects[o.to[k]].from.push({o, step: o.to[k + 1], follows: o.to[k + 2]});
}
for (const o of objects) { // rounding cannot matter: the numbers are whole
  o.children.sort((a, b) => b.retained - a.retained || a.n - b.n);
  o.left = o.owned - o.children.length;
  o.left_bytes = o.retained - o.bytes - o.children.reduce((sum, c) => sum + c.retained, 0);
}

const commas = v => Math.abs(v).toString().replace(/\B(?=(\d{3})+$)/g, ","), signed = v => (v > 0 ? "+" : v < 0 ? "\u2212" : "") + commas(v);
const count = (v, what) => `${commas(v)} ${what}${v === 1 ? "" : "s"}`;
const join = (text, step, follows) => !step ? text : !text ? step : text + (follows ? "" : " > ") + step;

// The path of an object, without the middle of a long one.
function path(o) {
  if (o.path !== undefined) return o.path;
  const steps = [];
  let at = o, text = "";
  for (; at.n; at = objects[at.holder]) {
    steps.push(at);
    if (at.holder < 0) { text = at.prefix || ""; break; }
  }
  steps.reverse();
  const out = steps.length > DEEP + 1;
  steps.forEach((s, k) => {
    if (out && k === DEEP - 6) text += ` > ... ${steps.length - DEEP} steps ...`;
    if (!out || k < DEEP - 6 || k >= steps.length - 6) text = join(text, s.step, s.follows);
  });
  return o.path = text || "(all)";
}

function element(name, text, kind) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (kind) e.className = kind;
  return e;
}

// --- tables
// columns: [head, class]; row: {cells, share, open, o, key}
function table(columns, rows) {
  const t = element("table"), head = t.createTHead().insertRow(), body = t.createTBody();
  for (const [title, kind] of columns) head.append(element("th", title, kind));
  for (const r of rows) body.append(line(columns, r));
  return t;
}

function line(columns, r) {
  const tr = element("tr", undefined, r.o || r.act ? "" : "plain");
  tr.tabIndex = -1;
  tr.row = r;
  r.cells.forEach((c, k) => {
    const td = element("td", c && c.text !== undefined ? c.text : c, columns[k][1]);
    if (c && c.kind) td.classList.add(c.kind);
    if (k === 0 && r.share !== undefined) {
      td.classList.add("share");
      td.style.setProperty("--share", (100 * r.share).toFixed(1) + "%");
    }
    tr.append(td);
  });
  const last = tr.lastChild;
  if (r.mark !== undefined) {
    last.style.paddingLeft = `${r.depth + 1.5}em`;
    last.prepend(element("i", r.mark));
    tr.setAttribute("aria-level", r.depth + 1);
    if (r.mark) tr.setAttribute("aria-expanded", r.mark === "\u25be");
  }
  if (r.note) last.append(element("small", r.note));
  return tr;
}

// --- views
const open = new Set([0]), more = new Map(); // of the tree: the objects that are open, and how many children of them are shown
let view = "tree", chosen = 0, pattern = null;
const OF_OBJECTS = [["Retained"], ["Own", "wide"], ["Shared", "wide"], ["Object"]];

function object_row(o, text, extra) {
  return Object.assign({o, share: o.retained / data.total, cells: [commas(o.retained), commas(o.bytes), commas(o.shared), text],
    note: o.what}, extra);
}

function tree_rows() {
  const rows = [], todo = [{o: objects[0], depth: 0}];
  while (todo.length) {
    const {o, depth, rest} = todo.pop();
    if (rest) {
      rows.push({cells: [commas(rest.bytes), "", "", rest.text], depth, mark: "", act: rest.act});
      continue;
    }
    const is_open = open.has(o.n), inner = o.children.length || o.left > 0;
    const step = o.n === 0 ? "all that is alive" : o.holder === o.owner && o.step ? o.step : path(o);
    rows.push(object_row(o, step, {depth, mark: inner ? is_open ? "\u25be" : "\u25b8" : ""}));
    if (!is_open) continue;
    const shown = more.get(o.n) || 50, hidden = o.children.slice(shown), next = [];
    for (const c of o.children.slice(0, shown)) next.push({o: c, depth: depth + 1});
    if (hidden.length) next.push({depth: depth + 1, rest: {bytes: hidden.reduce((sum, c) => sum + c.retained, 0),
      text: `show ${count(hidden.length, "more object")}`, act: () => more.set(o.n, shown + MOST)}});
    if (o.left > 0) next.push({depth: depth + 1, rest: {bytes: o.left_bytes, text: `${count(o.left, "smaller object")}, which this page leaves out`}});
    todo.push(...next.reverse());
  }
  return rows;
}

function type_rows(types, change) {
  const show = change ? signed : commas;
  return types.map(t => ({cells: [{text: show(t.bytes), kind: change && (t.bytes > 0 ? "up" : "down")}, t.count === undefined ? "" : show(t.count), t.type],
    share: change ? undefined : t.bytes / data.total, act: t.count === undefined ? undefined : () => search(`^${t.type}$`)}));
}

const by_path = new Map();
function find(p) {
  if (!by_path.size) for (const o of objects) if (!by_path.has(path(o))) by_path.set(path(o), o);
  return by_path.get(p);
}

const views = {
  types: () => [table([["Bytes"], ["Objects"], ["Type"]], type_rows(data.types))],
  tree: () => [element("p", left_out()), table(OF_OBJECTS, tree_rows())],
  paths: () => [element("p", "The objects to which most memory belongs. A row is where it branches."),
    table(OF_OBJECTS, data.paths.map(r => ({o: find(r.path), share: r.retained / data.total, note: r.what,
      cells: [commas(r.retained), commas(r.bytes), commas(r.shared), r.path]})))],
  changes: () => [element("p", `${signed(data.changes.total)} bytes since the earlier snapshot`),
    table([["Bytes"], ["Objects"], ["Type"]], type_rows(data.changes.types, true)),
    table([["Change"], ["Before", "wide"], ["After", "wide"], ["Path"]], data.changes.paths.map(r => ({o: find(r.path), note: r.what,
      cells: [{text: signed(r.bytes), kind: r.bytes > 0 ? "up" : "down"}, commas(r.before), commas(r.after), r.path]})))],
};

function left_out() {
  const out = objects.reduce((sum, o) => sum + Math.max(o.left, 0), 0), bytes = objects.reduce((sum, o) => sum + (o.left > 0 ? o.left_bytes : 0), 0);
  return `What would be free without each object. ${out ? `${count(out, "small object")} of ${commas(bytes)} bytes ${out === 1 ? "is" : "are"} not in this page.`
    : "All objects are in this page."} Garbage has ${commas(data.garbage)} bytes.`;
}

function search_rows() {
  const found = objects.filter(o => o.n && (pattern.test(o.type) || pattern.test(o.what) || pattern.test(path(o))));
  $("matched").textContent = commas(found.length);
  return found.sort((a, b) => b.retained - a.retained).slice(0, MOST).map(o => object_row(o, path(o)));
}

function show(focus) {
  const at = $("view"), top = at.scrollTop;
  at.replaceChildren(...(pattern ? [element("p", "The objects of this page that match, the largest first"), table(OF_OBJECTS, search_rows())] : views[view]()));
  for (const b of $("tabs").children) b.setAttribute("aria-selected", !pattern && b.id === view);
  if (!pattern) $("matched").textContent = "";
  at.scrollTop = top;
  mark();
  const row = focus !== undefined && [...at.querySelectorAll("tbody tr")].find(r => r.row.o && r.row.o.n === focus);
  if (row) row.focus();
}

function mark() {
  for (const r of $("view").querySelectorAll("tbody tr")) r.classList.toggle("chosen", !!r.row.o && r.row.o.n === chosen && !$("panel").hidden);
}

function choose_view(name) {
  view = name;
  $("search").value = "";
  pattern = null;
  $("view").scrollTop = 0;
  show();
}

function search(text) {
  $("search").value = text;
  $("search").classList.remove("bad");
  try { pattern = text ? new RegExp(text) : null; } catch (e) {
    $("search").classList.add("bad");
    $("matched").textContent = "no regex";
    return;
  }
  show();
}

// --- the chosen object
function list(title, entries, rest) {
  const box = [element("h3", title)], ul = element("ul");
  for (const {o, text} of entries.slice(0, MOST)) {
    const li = element("li"), b = element("button", text);
    b.append(element("small", " " + o.what));
    b.addEventListener("click", () => choose(o.n));
    li.append(element("span", commas(o.retained)), b);
    ul.append(li);
  }
  box.push(ul);
  const left = rest + Math.max(0, entries.length - MOST);
  if (left > 0) box.push(element("p", `${count(left, entries.length ? "more reference" : "reference")} of objects that are not shown`));
  return box;
}

function choose(n) {
  chosen = n;
  const o = objects[n], side = $("panel"), in_tree = element("button", "Show in the tree");
  in_tree.addEventListener("click", () => reveal(n));
  const to = [];
  for (let k = 0; k < o.to.length; k += 3) to.push({o: objects[o.to[k]], text: o.to[k + 1]});
  to.sort((a, b) => b.o.retained - a.o.retained);
  side.hidden = false;
  side.replaceChildren(element("h2", path(o)), element("p", o.what),
    element("p", `${commas(o.bytes)} bytes of its own, ${commas(o.retained)} retained, ${commas(o.shared)} shared`), in_tree,
    ...list("Held by", o.from.filter(f => f.o !== o).map(f => ({o: f.o, text: join(path(f.o), f.step, f.follows)})), Math.max(0, o.holders - o.from.length)),
    ...list("Holds", to, o.others));
  side.scrollTop = 0;
  mark();
}

function reveal(n) {
  for (let o = objects[n]; o.n; o = objects[o.owner]) {
    const up = objects[o.owner], place = up.children.indexOf(o);
    open.add(up.n);
    if (place >= (more.get(up.n) || 50)) more.set(up.n, place + 1);
  }
  choose_view("tree");
  chosen = n;
  show(n);
}

function toggle(o, is_open) {
  if (is_open === undefined ? !open.delete(o.n) : is_open) open.add(o.n); else open.delete(o.n);
  show(o.n);
}

// --- mouse and keys
$("view").addEventListener("click", e => {
  const tr = e.target.closest("tbody tr");
  if (!tr) return;
  const r = tr.row;
  if (r.act) { r.act(); if (!pattern) show(); return; }
  if (!r.o) return;
  choose(r.o.n);
  if (r.mark) toggle(r.o); else tr.focus();
});
$("search").addEventListener("input", () => search($("search").value));
$("keys").addEventListener("click", () => {
  $("help").hidden = !$("help").hidden;
  $("keys").setAttribute("aria-expanded", !$("help").hidden);
});

function go(by) {
  const rows = [...$("view").querySelectorAll("tbody tr")], at = rows.indexOf(document.activeElement);
  const to = rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))];
  if (to) to.focus();
}

document.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const tr = document.activeElement && document.activeElement.closest("tbody tr"), r = tr && tr.row, names = [...$("tabs").children];
  if (e.key === "Escape") { search(""); $("view").focus(); }
  else if (e.target === $("search")) { if (e.key === "Enter" || e.key === "ArrowDown") go(1); else return; }
  else if (e.key === "/") $("search").focus();
  else if (e.key === "ArrowDown") go(1);
  else if (e.key === "ArrowUp") go(-1);
  else if (e.key === "ArrowRight" && r && r.o && r.mark) toggle(r.o, true);
  else if (e.key === "ArrowLeft" && r && r.o && r.mark !== undefined) {
    if (open.has(r.o.n)) toggle(r.o, false); else if (r.o.owner >= 0) show(r.o.owner);
  }
  else if (e.key === "Enter" && r) { if (r.act) { r.act(); if (!pattern) show(); } else if (r.o) choose(r.o.n); }
  else if (names[+e.key - 1]) names[+e.key - 1].click();
  else return;
  e.preventDefault();
});

$("title").textContent = data.title;
$("subtitle").textContent = data.subtitle;
for (const [name, title] of [["tree", "Tree"], ["types", "Types"], ["paths", "Paths"], ["changes", "Changes"]]) {
  if (name === "changes" && !data.changes) continue;
  const b = element("button", title);
  b.id = name;
  b.setAttribute("role", "tab");
  b.addEventListener("click", () => choose_view(name));
  $("tabs").append(b);
}
choose_view(data.changes ? "changes" : "tree");
