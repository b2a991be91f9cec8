"use strict";
// Draws the distributions: for each event an SVG as wide as the page, and a table. perf.bench.page computes the data.
const $ = id => document.getElementById(id), data = JSON.parse($("data").textContent), SVG = "http://www.w3.org/2000/svg";
const HEAD = 20, CURVE = 44, DOTS = 29, LANE = HEAD + CURVE + DOTS, AXIS = 24, SIDE = 8, DOT = 3, FEW = 4;
let in_order = false, whole = false;

function el(name, text, cls) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (cls) e.className = cls;
  return e;
}
function draw(into, name, attributes, text) {
  const e = document.createElementNS(SVG, name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return into.appendChild(e);
}

// A value with four digits, in the unit that fits the size `like`: all marks of an axis have the same.
function amount(v, unit, like = v) {
  const s = Math.abs(like), four = x => String(Number(x.toPrecision(4)));
  if (unit !== "ns" && s < .001 && v) return v.toExponential(2).replace(/\.?0*e/, "e") + (unit ? " " + unit : "");
  if (unit !== "ns") return (s >= 1000 ? Math.round(v).toLocaleString("en-US") : four(v)) + (unit ? " " + unit : "");
  const [d, u] = s >= 1e9 ? [1e9, "s"] : s >= 1e6 ? [1e6, "ms"] : s >= 1e3 ? [1e3, "us"] : [1, "ns"];
  return four(v / d) + " " + u;
}

// Round numbers between two values, about `n` of them.
function ticks(from, to, n) {
  const rough = (to - from) / n, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(x => x * power >= rough), list = [];
  for (let k = Math.ceil(from / step); k * step <= to; k++) list.push(k * step);
  return list;
}

// How a candidate is coloured: the baseline, more or less than it, or no real difference.
const kind = (c, i) => i === 0 ? "base" : c.real ? (c.more ? "more" : "less") : "none";
const mark = (c, i) => i === 0 || !c.real ? "" : c.more ? "\u25b2 " : "\u25bc ";
const scale_of = row => whole ? row.whole : row.scale;
const is_outlier = (c, v) => v < c.low || v > c.high;

// The texts of the axis, at the height `y`; with `lines`, also a line from each text up through all lanes.
function axis_values(g, row, x, width, y, lines) {
  const [from, to] = scale_of(row);
  for (const v of ticks(from, to, Math.max(2, width / 80))) {
    if (lines) draw(g, "line", {x1: x(v), x2: x(v), y1: 0, y2: y, class: "axis"});
    const at = x(v), anchor = at < 24 ? "start" : at > width - 24 ? "end" : "middle";
    draw(g, "text", {x: at, y: y + 16, "text-anchor": anchor}, amount(v, row.unit, Math.max(Math.abs(from), Math.abs(to))));
  }
}

function axis_runs(g, runs, width, y) {
  draw(g, "text", {x: 0, y: y + 16}, "first run");
  draw(g, "text", {x: width, y: y + 16, "text-anchor": "end"}, `run ${runs}`);
}

// The dots of runs whose values are within the scale, and words for the others at its ends.
function beyond(g, c, row, y, width) {
  const [from, to] = scale_of(row), below = c.values.filter(v => v < from), above = c.values.filter(v => v > to);
  const say = (list, to_value, side, word) => list.length && draw(g, "text", {x: side === "end" ? width : 0, y, "text-anchor": side},
    `${side === "end" ? "" : "\u2190 "}${list.length} ${word} ${amount(to_value, row.unit)}${side === "end" ? " \u2192" : ""}`);
  say(below, Math.min(...below), "start", "down to");
  say(above, Math.max(...above), "end", "up to");
}

function lane_of_density(g, c, row, x, top, width) {
  const base = top + HEAD + CURVE, [from, to] = row.scale;
  if (c.density) {
    const place = i => x(from + (to - from) * i / (c.density.length - 1)).toFixed(1);
    const points = c.density.map((h, i) => `${place(i)},${(base - h * (CURVE - 4)).toFixed(1)}`);
    draw(g, "path", {class: "density", d: `M${place(0)},${base}L${points.join("L")}L${place(c.density.length - 1)},${base}Z`});
  }
  const stacked = new Map();
  c.values.forEach((v, i) => {
    const [low, high] = scale_of(row);
    if (v < low || v > high) return;
    const column = Math.round(x(v) / (2 * DOT)), above = stacked.get(column) || 0;
    stacked.set(column, above + 1);
    draw(g, "circle", {cx: x(v).toFixed(1), cy: base + 8 + above % 3 * 6, r: DOT, class: is_outlier(c, v) ? "outlier" : "dot",
      "data-run": i + 1, "data-value": v});
  });
  const within = at => Math.min(width, Math.max(0, at));
  draw(g, "line", {x1: within(x(c.lo)), x2: within(Math.max(x(c.hi), x(c.lo) + 1)), y1: base, y2: base, class: "interval"});
  draw(g, "line", {x1: x(c.median), x2: x(c.median), y1: top + HEAD, y2: base + 4, class: "median"});
  beyond(g, c, row, top + HEAD + 12, width);
}

function lane_of_order(g, c, row, x, top, width) {
  const [from, to] = scale_of(row), bottom = top + LANE - 6, high = LANE - HEAD - 12;
  const y = v => bottom - (v - from) / (to - from) * high;
  draw(g, "line", {x1: 0, x2: width, y1: y(c.median), y2: y(c.median), class: "median", "stroke-opacity": .5});
  c.values.forEach((v, i) => {
    const off = v < from || v > to, at = Math.min(Math.max(v, from), to);
    draw(g, "circle", {cx: x(i + 1).toFixed(1), cy: y(at).toFixed(1), r: DOT, class: is_outlier(c, v) || off ? "outlier" : "dot",
      "data-run": i + 1, "data-value": v});
  });
}

// In words, for those who do not see the chart.
function words(row) {
  return `${row.title}: ` + row.candidates.map((c, i) => [iso(c.name), c.why ? "not counted" : "median " + c.cells[0],
    i > 0 && c.verdict].filter(Boolean).join(" ")).join("; ");
}

function chart(row, svg, ruler) {
  const width = Math.max(120, svg.parentNode.clientWidth - 2 * SIDE), lanes = row.candidates, bottom = lanes.length * LANE;
  svg.replaceChildren();
  svg.setAttribute("height", bottom + AXIS);
  const g = draw(svg, "g", {transform: `translate(${SIDE},0)`}), [from, to] = scale_of(row), runs = lanes.find(c => c.values).values.length;
  const by_value = v => (v - from) / (to - from) * width;
  const x = in_order ? i => runs > 1 ? (i - 1) / (runs - 1) * width : width / 2 : by_value;
  const axis = (into, y, lines) => in_order ? axis_runs(into, runs, width, y) : axis_values(into, row, x, width, y, lines);
  axis(g, bottom, true);
  if (ruler) { // a second axis above many lanes, which stays in view when they scroll
    ruler.replaceChildren();
    ruler.setAttribute("height", AXIS);
    axis(draw(ruler, "g", {transform: `translate(${SIDE},0)`}), 0);
  }
  const first = lanes[0];
  if (!in_order && lanes.length > 1 && !first.why)
    draw(g, "line", {x1: x(first.median), x2: x(first.median), y1: HEAD, y2: bottom, class: "reference"});
  lanes.forEach((c, i) => {
    const lane = draw(g, "g", {class: kind(c, i)}), top = i * LANE;
    const floor = top + (in_order ? LANE - 2 : HEAD + CURVE);
    draw(lane, "line", {x1: 0, x2: width, y1: floor, y2: floor, class: "axis"});
    const name = draw(lane, "text", {x: 0, y: top + 14, class: "name"}, c.name);
    if (c.verdict) draw(lane, "text", {x: width, y: top + 14, "text-anchor": "end", class: "verdict"}, mark(c, i) + c.verdict);
    if (c.verdict) shorten(name, width - 12 * c.verdict.length * .6);
    if (c.why) draw(lane, "text", {x: 0, y: top + HEAD + CURVE - 8}, "not counted");
    else (in_order ? lane_of_order : lane_of_density)(lane, c, row, x, top, width);
  });
}

const iso = text => text && "\u2068" + text + "\u2069"; // right-to-left names keep their place among numbers and other names
// A name that would run into the text beside it loses its middle: names often differ at their ends.
function shorten(text, room) {
  const full = [...text.textContent], part = (from, to) => full.slice(from, to).join("");
  for (let n = full.length - 1; n > 1 && text.getComputedTextLength() > room; n--) {
    text.textContent = part(0, n - (n >> 1)) + "\u2026" + part(full.length - (n >> 1));
  }
}

const MINOR = ["mean", "spread", "min", "max"]; // left out on phones
function table(row) {
  const several = row.candidates.length > 1, t = el("table"), box = el("div", undefined, "scroll");
  const heads = ["median", "95 % interval", "mean", "spread", "min", "max"];
  if (several) heads.push("ratio");
  const head = t.createTHead().insertRow(), body = t.createTBody();
  head.append(el("th", several ? "candidate" : ""), ...heads.map(h => el("th", h)));
  if (several) head.append(el("th", "difference", "said"));
  row.candidates.forEach((c, i) => {
    const line = body.insertRow(), name = el("th"), named = name.appendChild(el("div", several ? c.name : "per call", "named"));
    name.scope = "row";
    named.dir = "auto";
    named.title = several ? c.name : "";
    line.append(name);
    const cells = c.why ? ["not counted: " + c.why] : [...c.cells, ...(several ? [c.ratio || ""] : [])];
    cells.forEach((text, k) => line.append(el("td", text, MINOR.includes(heads[k]) ? "minor" : "")));
    if (several && i) line.append(el("td", mark(c, i) + (c.verdict || ""), "said " + kind(c, i)));
    [...line.cells].forEach((cell, k) => { if (k) cell.dataset.head = [...heads, "difference"][k - 1]; });
  });
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", "Numbers of " + row.title);
  box.append(t);
  return box;
}

// Every value as text, made when it is asked for.
function values(row) {
  const all = el("details"), list = row.candidates.filter(c => c.values);
  all.append(el("summary", "All values"));
  all.addEventListener("toggle", () => {
    if (all.children.length > 1) return;
    const t = el("table"), head = t.createTHead().insertRow(), body = t.createTBody(), box = el("div");
    head.append(el("th", "run"), ...list.map(c => el("th", iso(c.name) || row.title)));
    for (let i = 0; i < Math.max(...list.map(c => c.values.length)); i++)
      body.insertRow().append(el("td", i + 1), ...list.map(c => el("td", i < c.values.length ? amount(c.values[i], row.unit) : "")));
    box.style.overflowX = "auto";
    box.append(t);
    all.append(box);
  });
  return all;
}

const charts = [];
for (const row of data.rows) {
  const section = el("section");
  section.append(el("h2", row.title));
  for (const note of [row.note, row.share, row.near_zero]) if (note) section.append(el("p", note));
  if (row.scale) {
    const box = el("div"), ruler = row.candidates.length > FEW && draw(box, "svg", {class: "ruler", "aria-hidden": true});
    const svg = draw(box, "svg", {role: "img", "aria-label": words(row)});
    section.append(box, table(row), values(row));
    charts.push([row, svg, ruler]);
  } else if (row.all) {
    section.append(el("p", row.all + " in every run" + (row.candidates.length > 1 ? " of each candidate" : "")));
  } else {
    section.append(el("p", "not counted: " + row.candidates[0].why));
  }
  $("rows").append(section);
}
const draw_all = () => charts.forEach(c => chart(...c));

function toggle(id, change) {
  const button = $(id);
  const press = () => {
    button.setAttribute("aria-pressed", change());
    draw_all();
  };
  button.addEventListener("click", press);
  return press;
}
const keys = {o: toggle("order", () => in_order = !in_order), a: toggle("whole", () => whole = !whole)};
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key] || event.key === "a" && $("whole").hidden) return;
  keys[event.key]();
});

document.addEventListener("pointermove", event => {
  const tip = $("tip"), dot = event.target.closest && event.target.closest("circle");
  tip.hidden = !dot;
  if (!dot) return;
  const unit = charts.find(([, svg]) => svg.contains(dot))[0].unit;
  tip.textContent = `run ${dot.dataset.run}: ${amount(Number(dot.dataset.value), unit)}`;
  tip.style.left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = (event.clientY > innerHeight - 50 ? event.clientY - 36 : event.clientY + 14) + "px";
});

$("title").textContent = data.title;
$("subtitle").textContent = data.subtitle + (data.source ? `; ${data.source} events` : "");
$("rule").textContent = data.rule || "";
$("whole").hidden = !data.rows.some(r => r.scale && (r.scale[0] !== r.whole[0] || r.scale[1] !== r.whole[1]));
let drawn_width = 0;
new ResizeObserver(() => {
  const width = $("rows").clientWidth;
  if (width !== drawn_width) draw_all();
  drawn_width = width;
}).observe($("rows"));
drawn_width = $("rows").clientWidth;
draw_all();
