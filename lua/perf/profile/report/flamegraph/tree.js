"use strict";
// The tree of the page: parsed, summed up, and merged by function. It comes as text in preorder.
const $ = id => document.getElementById(id);
const data = JSON.parse($("data").textContent);

// The nodes of the text that flamegraph.lua writes: see write_nodes there. In a tree in the order of time, `timed`, a node may
// have a gap before it, in which its caller alone ran.
function parse(text, timed) {
  let count = 0;
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) === 59) count++;
  const t = arrays(count, data.frames), weights = [t.own, t.times, t.before_own, t.before_times];
  for (let i = 0, at = 0, last = -1, n = 0, part = -1, value = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c >= 48 && c < 58) n = n * (part < 0 ? 36 : 10) + c - 48;
    else if (c >= 97) n = n * 36 + c - 87;
    else if (c === 60) { for (; n > 0; n--) last = t.parent[last]; }
    else { // a colon, a comma or a semicolon ends a number
      if (part < 0) t.frame[at] = n; else weights[part][at] = n;
      part++;
      n = 0;
      if (c === 59) {
        t.parent[at] = last;
        last = at++;
        part = -1;
      }
    }
  }
  return complete(t, timed);
}

function arrays(count, frames) {
  const [frame, depth, end, parent] = [1, 2, 3, 4].map(() => new Int32Array(count));
  const [own, times, before_own, before_times] = [1, 2, 3, 4].map(() => new Float64Array(data.diff || frames ? count : 0));
  return {count, frames, frame, depth, end, parent, own, times, before_own, before_times};
}

// Depths, ends and sums of a tree in preorder.
function complete(t, timed) {
  for (let i = 0; i < t.count; i++) {
    t.depth[i] = i ? t.depth[t.parent[i]] + 1 : 0;
    t.end[i] = i + 1;
  }
  for (let i = t.count - 1; i > 0; i--) {
    const p = t.parent[i];
    if (t.end[i] > t.end[p]) t.end[p] = t.end[i];
  }
  t.after = side(t, t.own, t.times, timed && t.before_own);
  t.before = data.diff ? side(t, t.before_own, t.before_times) : null;
  t.hues = t.frames.map(f => {
    let h = 2166136261;
    for (const c of f.func || f.name) h = Math.imul(h ^ c.codePointAt(0), 16777619);
    return ((h ^ h >>> 15) >>> 0) / 4294967296;
  });
  // Right-to-left names are units of their own, so that numbers beside them keep their places.
  const isolated = s => /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/.test(s) ? "\u2068" + s + "\u2069" : s;
  for (const f of t.frames)
    f.title = f.func && f.file ? isolated(f.func) + " " + isolated(f.file) + lines(f) : isolated(f.name);
  return t;
}

// One side: weights and samples, added up over what is called; where each node begins.
function side(t, own, own_times, gaps) {
  const [sum, x, next] = [1, 2, 3].map(() => new Float64Array(t.count)), times = Float64Array.from(own_times);
  for (let i = t.count - 1; i >= 0; i--) {
    sum[i] += own[i];
    if (i) { sum[t.parent[i]] += sum[i]; times[t.parent[i]] += times[i]; }
  }
  for (let i = 1; i < t.count; i++) {
    const p = t.parent[i];
    if (gaps) next[p] += gaps[i];
    x[i] = x[p] + next[p];
    next[p] += sum[i];
  }
  return {own, sum, times, x, all: sum[0] || 1};
}

const lines = f => f.line ? ":" + f.line + (f.lastline ? "-" + f.lastline : "") : "";
const identity = f => [f.func || f.name, f.file || "", f.file ? f.linedefined || "" : "", f.module || "", f.kind].join("\0");

// For each frame the number of its function, and a frame for each function.
function functions_of(frames) {
  const number = new Map(), list = [];
  const of = frames.map(f => {
    const key = identity(f);
    if (!number.has(key)) {
      number.set(key, list.length);
      list.push({name: f.func || f.name, func: f.func, kind: f.kind === "range" ? "lua" : f.kind, file: f.file, module: f.module,
        line: f.file ? f.linedefined : undefined});
    }
    return number.get(key);
  });
  return {of, list};
}

// The same tree with the lines of a function merged.
function merged(t) {
  const {of, list} = functions_of(t.frames), to = new Int32Array(t.count), known = new Map(), nodes = [];
  for (let i = 0; i < t.count; i++) {
    const p = i ? to[t.parent[i]] : -1, key = p * list.length + of[t.frame[i]];
    let at = known.get(key);
    if (at === undefined) {
      at = nodes.length;
      known.set(key, at);
      nodes.push({frame: of[t.frame[i]], parent: p, children: [], own: 0, times: 0, before_own: 0, before_times: 0, sum: 0});
      if (p >= 0) nodes[p].children.push(at);
    }
    to[i] = at;
    for (const k of ["own", "times", "before_own", "before_times"]) nodes[at][k] += t[k][i];
  }
  for (let i = nodes.length - 1; i >= 0; i--) {
    nodes[i].sum += nodes[i].own + nodes[i].before_own;
    if (i) nodes[nodes[i].parent].sum += nodes[i].sum;
  }
  const m = arrays(nodes.length, list), todo = [0], place = new Int32Array(nodes.length);
  for (let at = 0; todo.length; at++) {
    const i = todo.pop(), node = nodes[i];
    place[i] = at;
    m.frame[at] = node.frame;
    m.parent[at] = i ? place[node.parent] : -1;
    for (const k of ["own", "times", "before_own", "before_times"]) m[k][at] = node[k];
    todo.push(...node.children.sort((a, b) => nodes[a].sum - nodes[b].sum));
  }
  return complete(m);
}
