// The table of functions: their own weight, and that of everything they call; of one function who calls it and whom it calls.
let chosen = -1; // the number of the function
let order = "Self"; // the column by which the functions are sorted
function functions() {
  const {of, list} = functions_of(frames), own = new Float64Array(list.length), total = new Float64Array(list.length);
  const callers = new Map(), callees = new Map(), path = [], open = new Int32Array(list.length);
  const add = (map, f, v) => map.set(f, (map.get(f) || 0) + v);
  for (let i = 0; i < count; i++) {
    const f = of[frame[i]];
    while (path.length > depth[i]) open[path.pop()]--;
    own[f] += now.own[i];
    if (!open[f]++) {
      total[f] += now.sum[i];
      if (f === chosen && i) add(callers, of[frame[parent[i]]], now.sum[i]);
    }
    if (i && of[frame[parent[i]]] === chosen && f !== chosen) add(callees, f, now.sum[i]);
    path.push(f);
  }
  return {list, own, total, callers, callees};
}

function table(title, rows, heads, choose) {
  const t = document.createElement("table"), head = t.createTHead().insertRow();
  for (const h of [...heads, title]) {
    const cell = document.createElement("th");
    cell.scope = "col";
    if (orders[h] && heads.length > 1) {
      const sort = document.createElement("button");
      sort.textContent = h;
      sort.title = "Sort by this";
      sort.addEventListener("click", () => { order = h; panel(); remember(); });
      cell.append(sort);
      if (h === order) cell.setAttribute("aria-sort", h === "Function" ? "ascending" : "descending");
    } else {
      cell.textContent = h;
    }
    head.append(cell);
  }
  const body = t.createTBody();
  for (const r of rows) {
    const line = body.insertRow();
    for (const v of r.values) {
      const cell = line.insertCell();
      cell.textContent = (100 * v / now.all).toFixed(1) + "%";
      cell.title = amount(v);
    }
    const name = document.createElement("button");
    name.textContent = r.f.title || r.f.name;
    name.title = [r.f.file, r.f.module].filter(Boolean).join(" ");
    name.addEventListener("click", () => choose(r.n));
    line.insertCell().append(name);
  }
  return t;
}

const MOST = 200; // rows
const orders = {
  Self: t => (a, b) => t.own[b] - t.own[a] || t.total[b] - t.total[a],
  Total: t => (a, b) => t.total[b] - t.total[a] || t.own[b] - t.own[a],
  Function: t => (a, b) => t.list[a].title < t.list[b].title ? -1 : 1,
};
function panel() {
  const side = $("panel");
  side.textContent = "";
  if (side.hidden) return;
  const t = functions();
  for (const f of t.list) f.title = f.func && f.file ? f.func + " " + f.file.replace(/^.*\//, "") + lines(f) : f.name;
  const rows_of = map => [...map].filter(([n, v]) => v > 0).sort((a, b) => b[1] - a[1]).slice(0, MOST)
    .map(([n, v]) => ({n, f: t.list[n], values: [v]}));
  if (chosen >= 0 && chosen < t.list.length) {
    const back = document.createElement("button"), name = document.createElement("h2");
    back.textContent = "All functions";
    back.addEventListener("click", () => choose(-1));
    name.textContent = t.list[chosen].title;
    const sums = document.createElement("p");
    sums.textContent = `self ${amount(t.own[chosen])} (${percent(t.own[chosen], now.all)}) \u00b7 total ${amount(t.total[chosen])} ` +
      `(${percent(t.total[chosen], now.all)})`;
    side.append(back, name, sums, table("Called by", rows_of(t.callers), ["Share"], choose),
      table("Calls", rows_of(t.callees), ["Share"], choose));
    return;
  }
  const shown = t.list.map((f, n) => n).filter(n => t.list[n].kind !== "root" && t.total[n] > 0).sort(orders[order](t)).slice(0, MOST);
  side.append(table("Function", shown.map(n => ({n, f: t.list[n], values: [t.own[n], t.total[n]]})), ["Self", "Total"], choose));
}

// Choose a function in the table, and mark its frames in the graph.
function choose(n) {
  chosen = n;
  pattern = hits = null;
  if (n >= 0) {
    const {of} = functions_of(frames);
    hits = frames.map((f, i) => of[i] === n);
  }
  panel();
  redraw();
  remember();
}

function toggle_panel() {
  $("panel").hidden = !$("panel").hidden;
  $("table").setAttribute("aria-expanded", !$("panel").hidden);
  panel();
  remember();
}
