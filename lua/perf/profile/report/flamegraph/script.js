// The drawing of the graph and its controls. Only what can be seen is drawn, on a canvas of the size of the view: the view scrolls
// over an empty space of the graph's height.
const by_line = parse(data.nodes);
let by_function = null, by_time = null; // made when they are first asked for
let {count, frames, frame, depth, end, parent, after, before, hues} = by_line;
let now = after;

// Colours -----------------------------------------------------------------------------------------------------------------
const dark = matchMedia("(prefers-color-scheme: dark)"), coarse = matchMedia("(pointer: coarse)");
const kinds = {lua: [24, 88, "Lua"], range: [36, 88, "Lua, several lines"], builtin: [54, 78, "Lua's library"], c: [95, 42, "C function"],
  native: [205, 60, "native"], kernel: [350, 62, "kernel"], jit: [270, 45, "compiled code"], state: [0, 0, "not Lua"], zone: [160, 45, "zone"],
  root: [0, 0, ""]};
const bytes = data.unit === "bytes"; // of memory, which is compared as it is; counts and times are compared by their shares
const change = i => bytes ? after.sum[i] - before.sum[i] : after.sum[i] / after.all - before.sum[i] / before.all;
const signed = d => (d > 0 ? "+" : "") + (bytes ? amount(d) : (100 * d).toFixed(2) + " points");
let widest = 0;
function find_widest() {
  widest = 0;
  if (before) for (let i = 1; i < count; i++) widest = Math.max(widest, Math.abs(change(i)));
}
find_widest();

function colour(i) {
  const f = frames[frame[i]], k = kinds[f.kind] || kinds.state, v = hues[frame[i]];
  if (before) {
    const d = widest ? change(i) / widest : 0, much = Math.sqrt(Math.abs(d));
    if (i === 0 || much < .02) return dark.matches ? "hsl(0 0% 30%)" : "hsl(0 0% 88%)";
    return dark.matches ? `hsl(${d > 0 ? 0 : 215} ${30 + 45 * much}% ${30 + 8 * much}%)`
      : `hsl(${d > 0 ? 0 : 215} ${60 + 30 * much}% ${92 - 26 * much}%)`;
  }
  const hue = k[0] + (k[1] ? (v - .5) * 18 : 0);
  return dark.matches ? `hsl(${hue} ${k[1] * .62}% ${29 + 9 * v}%)` : `hsl(${hue} ${k[1]}% ${69 + 12 * v}%)`;
}

// Amounts ---------------------------------------------------------------------------------------------------------------
function amount(v) {
  if (data.unit !== "ns") return Number(v.toFixed(2)).toLocaleString("en-US") + (data.unit === "bytes" ? " B" : "");
  const s = Math.abs(v), [d, u] = s >= 1e9 ? [1e9, "s"] : s >= 1e6 ? [1e6, "ms"] : s >= 1e3 ? [1e3, "us"] : [1, "ns"];
  return (v / d).toFixed(d > 1 ? 3 : 0) + " " + u;
}
const percent = (v, all) => (all ? 100 * v / all : 0).toFixed(2) + " %";
const plural = (n, what) => n.toLocaleString("en-US") + " " + what + (n === 1 ? "" : "s");

// Drawing ----------------------------------------------------------------------------------------------------------
const wide = innerWidth >= 1200; // then the table is shown at first
const view = $("view"), canvas = $("canvas"), pen = canvas.getContext("2d");
let zoom = 0, selected = -1, hovered = -1, icicle = true, rows = 1, width = 0, height = 0, rowHeight = 18, letter = 7;
let pattern = null, hits = null; // hits[f]: whether the frame matches

const visible = i => i === zoom || (i > zoom && i < end[zoom]) || (i < zoom && end[i] > zoom);
const place = i => i <= zoom && end[i] > zoom ? [0, width]
  : [(now.x[i] - now.x[zoom]) * width / (now.sum[zoom] || 1), now.sum[i] * width / (now.sum[zoom] || 1)];
const top_of = i => {
  const tall = Math.max(rows * rowHeight, height);
  return (icicle ? depth[i] * rowHeight : tall - (depth[i] + 1) * rowHeight) - view.scrollTop;
};

function measure() {
  rowHeight = coarse.matches ? 26 : 19;
  rows = depth[zoom] + 1;
  for (let i = zoom; i < end[zoom]; i++) if (depth[i] >= rows) rows = depth[i] + 1;
  const ratio = window.devicePixelRatio || 1;
  width = view.clientWidth; height = view.clientHeight;
  canvas.style.width = width + "px"; canvas.style.height = height + "px";
  canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
  $("space").style.height = Math.max(0, rows * rowHeight - height) + "px";
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = (coarse.matches ? 14 : 12) + "px ui-monospace, Menlo, Consolas, monospace";
  pen.textBaseline = "middle";
  letter = pen.measureText("M").width;
}

// The text in a frame: "parse app.lua:12 50.0%", "parse app.lua:12", "parse:12" or "pa\u2026:12": the line stays.
function label(f, room, share) {
  const fits = Math.floor((room - 7) / letter), func = f.func || f.name, line = f.file ? lines(f) : "";
  if (fits < 2) return "";
  if (f.title.length + 7 <= fits) return f.title + " " + share;
  if (f.title.length <= fits) return f.title;
  if (func.length + line.length <= fits) return func + line;
  const rest = fits - line.length - 1;
  return rest >= 1 ? func.slice(0, rest) + "\u2026" + line : func.slice(0, fits - 1) + "\u2026";
}

function box(i) {
  const y = top_of(i);
  if (y > height || y < -rowHeight) return;
  const [x, w] = place(i), f = frames[frame[i]], match = hits && hits[frame[i]] && i > 0;
  pen.globalAlpha = i < zoom ? .6 : hits && !match ? .45 : 1;
  pen.fillStyle = match ? (dark.matches ? "hsl(302 58% 42%)" : "hsl(302 85% 76%)") : colour(i);
  pen.fillRect(x, y, w > 3 ? w - 1 : Math.max(w, .5), rowHeight - 1);
  pen.globalAlpha = 1;
  if (i === selected || i === hovered) {
    pen.strokeStyle = dark.matches ? "#fff" : "#000";
    pen.lineWidth = i === selected ? 2 : 1;
    pen.strokeRect(x + 1, y + 1, Math.max(w - 3, 1), rowHeight - 3);
  }
  const text = w > 20 ? label(f, w, (100 * now.sum[i] / now.all).toFixed(1) + "%") : "";
  if (text) {
    pen.fillStyle = dark.matches ? "#f4f4f6" : "#111";
    pen.fillText(text, x + 4, y + rowHeight / 2);
  }
}

function draw() {
  pen.clearRect(0, 0, width, height);
  for (let i = zoom; i > 0; i = parent[i]) box(parent[i]);
  const scale = width / (now.sum[zoom] || 1);
  const deepest = icicle ? (view.scrollTop + height) / rowHeight
    : (Math.max(rows * rowHeight, height) - view.scrollTop) / rowHeight;
  const specks = [];
  const speck = new Int32Array(rows).fill(-1); // boxes too small to draw share a pixel, which hints at them
  for (let i = zoom; i < end[zoom];) {
    if (depth[i] > deepest) {
      i = end[i];
    } else if (now.sum[i] * scale < .4 && i !== zoom) {
      const px = Math.floor((now.x[i] - now.x[zoom]) * scale);
      const drawn = now.sum[i] > 0 && px > speck[depth[i]];
      if (drawn) {
        speck[depth[i]] = px;
        specks.push(i, px);
      }
      i = drawn ? i + 1 : end[i]; // what the first one of a pixel calls shows how deep the stacks are
    } else {
      box(i++);
    }
  }
  pen.globalAlpha = hits ? .25 : .6;
  const colours = [], down = icicle ? 1 : -1, top = top_of(zoom) - down * depth[zoom] * rowHeight; // asked for once: there are many
  for (let k = 0; k < specks.length; k += 2) {
    const i = specks[k];
    pen.fillStyle = before ? colour(i) : colours[frame[i]] ||= colour(i);
    pen.fillRect(specks[k + 1], top + down * depth[i] * rowHeight, 1, rowHeight - 1);
  }
  pen.globalAlpha = 1;
}
let pending = 0;
const redraw = () => { pending ||= requestAnimationFrame(() => { pending = 0; draw(); }); };

// Details of a frame -----------------------------------------------------------------------------------------------
function facts(i) {
  const f = frames[frame[i]], list = [amount(now.sum[i]), percent(now.sum[i], now.all) + " of all"];
  if (zoom && i > zoom) list.push(percent(now.sum[i], now.sum[zoom]) + " of what is shown");
  if (parent[i] > 0) list.push(percent(now.sum[i], now.sum[parent[i]]) + " of its caller");
  if (end[i] > i + 1 && i) list.push("itself " + amount(now.own[i]));
  list.push(plural(now.times[i], "sample"));
  if (before) {
    list.push(`before ${amount(before.sum[i])} (${percent(before.sum[i], before.all)}), after ${amount(after.sum[i])} ` +
      `(${percent(after.sum[i], after.all)}): ${signed(change(i))}`);
  }
  if (f.module) list.push(f.module);
  return list;
}

function describe(into, i) {
  into.textContent = "";
  const name = document.createElement("b"), rest = document.createElement("span");
  name.textContent = frames[frame[i]].title;
  rest.textContent = facts(i).join(" \u00b7 ");
  into.append(name, rest);
}

function tell() { describe($("details"), hovered >= 0 ? hovered : selected >= 0 && visible(selected) ? selected : zoom); }

function tip(event) {
  const t = $("tip");
  t.hidden = hovered < 0 || !event || event.pointerType === "touch";
  if (t.hidden) return;
  describe(t, hovered);
  const r = t.getBoundingClientRect();
  t.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - r.width - 6)) + "px";
  t.style.top = (event.clientY + 20 + r.height > innerHeight ? event.clientY - r.height - 12 : event.clientY + 20) + "px";
}

// Interaction ------------------------------------------------------------------------------------------------------
function at(event) {
  const r = canvas.getBoundingClientRect(), px = event.clientX - r.left, y = event.clientY - r.top + view.scrollTop;
  const tall = Math.max(rows * rowHeight, height);
  const level = Math.floor((icicle ? y : tall - 1 - y) / rowHeight);
  if (px < 0 || px >= width || level < 0 || level >= rows) return -1;
  let i = zoom;
  if (level <= depth[zoom]) {
    while (depth[i] > level) i = parent[i];
    return i;
  }
  const x = now.x[zoom] + px / width * now.sum[zoom];
  while (depth[i] < level) {
    let j = i + 1;
    while (j < end[i] && !(now.sum[j] > 0 && x >= now.x[j] && x < now.x[j] + now.sum[j])) j = end[j];
    if (j >= end[i]) return -1;
    i = j;
  }
  return i;
}

function changed() {
  $("reset").disabled = !zoom && !pattern;
  tell();
  redraw();
  remember();
}

function show(i) {
  if (i < 0) return;
  const y = top_of(i);
  if (y < 0) view.scrollTop += y;
  else if (y + rowHeight > height) view.scrollTop += y + rowHeight - height;
}

function zoom_to(i) {
  zoom = selected = i;
  hovered = -1;
  measure();
  if (!icicle) view.scrollTop = rows * rowHeight;
  show(i);
  tip(null);
  changed();
}

function select(i) {
  selected = i;
  hovered = -1;
  tip(null);
  show(i);
  changed();
}

function search(text) {
  const input = $("search");
  input.classList.remove("bad");
  pattern = hits = null;
  $("matched").textContent = "";
  if (text) {
    try {
      pattern = new RegExp(text, /[A-Z]/.test(text) ? "" : "i");
    } catch (e) {
      input.classList.add("bad");
      $("matched").textContent = "no regex";
    }
  }
  if (pattern) {
    hits = frames.map(f => pattern.test(f.name) || pattern.test(f.title));
    let share = 0;
    for (let i = 1; i < count;) {
      if (hits[frame[i]]) { share += now.sum[i]; i = end[i]; } else i++;
    }
    $("matched").textContent = percent(share, now.all);
  }
  chosen = -1;
  panel();
  changed();
}

function next_match() {
  if (!hits) return;
  const from = selected >= 0 ? selected : zoom;
  for (let k = 1; k <= count; k++) {
    const i = (from + k) % count;
    if (i && hits[frame[i]] && visible(i) && now.sum[i] > 0) return select(i);
  }
}

function flip() {
  icicle = !icicle;
  $("flip").textContent = icicle ? "Flame" : "Icicle";
  $("flip").title = icicle ? "Put the root at the bottom (i)" : "Put the root at the top (i)";
  view.scrollTop = icicle ? 0 : rows * rowHeight;
  redraw();
  remember();
}

function reset() {
  $("search").value = "";
  search("");
  zoom_to(0);
  selected = -1;
  changed();
}

function widths(which) {
  now = which;
  $("side").textContent = now === after ? "Widths: after" : "Widths: before";
  search($("search").value);
}

// Show a tree: "line" has a node for each line of a function, "function" one for all its lines; "time" has the calls in the order
// of their times.
let shape = "line";
function show_as(name) {
  const was_before = before && now === before;
  shape = name;
  if (name === "function") by_function ||= merged(by_line);
  if (name === "time") by_time ||= parse(data.moments, true);
  ({count, frames, frame, depth, end, parent, after, before, hues} = {line: by_line, function: by_function, time: by_time}[name]);
  now = was_before ? before : after;
  zoom = 0; selected = hovered = -1;
  find_widest();
  $("merge").textContent = name === "function" ? "By function" : "By line";
  $("time").setAttribute("aria-pressed", name === "time");
  const lost = name === "time" && data.moments_lost;
  $("subtitle").textContent = data.subtitle + (lost ? ` \u00b7 the last ${plural(lost, "sample")} not kept one by one` : "");
  measure();
  search($("search").value);
}
const merge = () => show_as(shape === "function" ? "line" : "function");
const in_time = () => { if (data.moments) show_as(shape === "time" ? "line" : "time"); };

function sibling(i, step) {
  const list = [];
  for (let j = parent[i] + 1; i && j < end[parent[i]]; j = end[j]) if (now.sum[j] > 0) list.push(j);
  const to = list[list.indexOf(i) + step];
  return to === undefined ? i : to;
}

function inward(i) {
  if (i < zoom) { // towards the zoomed frame
    let j = zoom;
    while (parent[j] !== i) j = parent[j];
    return j;
  }
  let best = i;
  for (let j = i + 1; j < end[i]; j = end[j]) if (now.sum[j] > 0 && (best === i || now.sum[j] > now.sum[best])) best = j;
  return best;
}

const keys = {
  ArrowLeft: i => select(i <= zoom ? i : sibling(i, -1)),
  ArrowRight: i => select(i <= zoom ? i : sibling(i, 1)),
  ArrowUp: i => select(icicle ? Math.max(parent[i], 0) : inward(i)),
  ArrowDown: i => select(icicle ? inward(i) : Math.max(parent[i], 0)),
  Enter: i => zoom_to(i),
  Escape: () => {
    if (!$("help").hidden) return help(false);
    if (zoom) zoom_to(parent[zoom]);
    else reset();
  },
  i: flip, m: merge, o: in_time, c: i => copy(hovered >= 0 ? hovered : i), t: toggle_panel, 0: reset, n: next_match,
  "/": () => $("search").focus(),
};

function help(on) {
  $("help").hidden = !on;
  $("keys").setAttribute("aria-expanded", on);
}

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target === $("search"), button = event.target.tagName === "BUTTON";
  if (typing) {
    if (event.key === "Enter") { next_match(); event.preventDefault(); }
    if (event.key === "Escape") {
      event.target.value = "";
      search("");
      view.focus();
      event.preventDefault();
    }
    return;
  }
  const act = keys[event.key];
  if (!act || (button && event.key === "Enter")) return;
  event.preventDefault();
  act(selected >= 0 && visible(selected) ? selected : zoom);
});
canvas.addEventListener("pointermove", event => {
  const i = event.pointerType === "touch" ? -1 : at(event);
  if (i !== hovered) {
    hovered = i;
    tell();
    redraw();
  }
  canvas.style.cursor = i < 0 ? "default" : "pointer";
  tip(event);
});
canvas.addEventListener("pointerleave", () => { hovered = -1; tip(null); tell(); redraw(); });
canvas.addEventListener("click", event => {
  const i = at(event);
  if (i >= 0) zoom_to(i);
});
view.addEventListener("scroll", redraw);
$("search").addEventListener("input", event => search(event.target.value));
$("flip").addEventListener("click", flip);
$("merge").addEventListener("click", merge);
$("time").addEventListener("click", in_time);
$("table").addEventListener("click", toggle_panel);
$("reset").addEventListener("click", reset);
$("keys").addEventListener("click", () => help($("help").hidden));
$("side").addEventListener("click", () => { widths(now === after ? before : after); measure(); });
for (const m of [dark, coarse]) m.addEventListener("change", () => { measure(); redraw(); });
new ResizeObserver(() => { measure(); draw(); }).observe(view);

function legend(name, style) {
  const entry = document.createElement("span"), mark = document.createElement("i");
  mark.style.background = style;
  entry.append(mark, name);
  $("legend").append(entry);
}
function legends() {
  $("legend").textContent = "";
  if (before) {
    legend("more than before", "hsl(0 75% 60%)");
    legend("less than before", "hsl(215 75% 60%)");
    return;
  }
  const used = new Set(frames.map(f => f.kind));
  for (const [kind, [hue, strength, name]] of Object.entries(kinds)) {
    if (!name || !used.has(kind)) continue;
    legend(name, dark.matches ? `hsl(${hue} ${strength * .62}% 40%)` : `hsl(${hue} ${strength}% 72%)`);
  }
}
dark.addEventListener("change", legends);

$("title").textContent = data.title;
$("subtitle").textContent = data.subtitle;
$("flip").textContent = "Flame";
$("flip").title = "Put the root at the bottom (i)";
$("side").hidden = !before;
$("time").hidden = $("time_key").hidden = !data.moments;
$("side").textContent = "Widths: after";
legends();
$("panel").hidden = !wide;
$("table").setAttribute("aria-expanded", !$("panel").hidden);
panel();
measure();
tell();
draw();
