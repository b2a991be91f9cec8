// What is shown is kept in the address after its #, so that a link or a reload shows the same again, and "back" zooms out.
function state() {
  const s = {};
  if (shape !== "line") s.by = shape;
  if (zoom) s.zoom = zoom;
  if ($("search").value) s.search = $("search").value;
  if (!icicle) s.root = "bottom";
  if (before && now === before) s.widths = "before";
  if ($("panel").hidden === wide) s.table = wide ? "no" : "yes";
  if (order !== "Self") s.order = order;
  if (chosen >= 0) s.function = chosen;
  return new URLSearchParams(s).toString();
}

let waiting = 0, restoring = true, last_zoom = 0;
function keep() {
  waiting = 0;
  const text = "#" + state();
  if (text === (location.hash || "#")) return;
  try { // a page may be shown where addresses cannot change
    const address = text === "#" ? location.pathname + location.search : text;
    history[zoom !== last_zoom ? "pushState" : "replaceState"](null, "", address);
  } catch (e) { return; }
  last_zoom = zoom;
}
// While someone types, the address changes once.
function remember() { if (!restoring) waiting ||= setTimeout(keep, 200); }

function restore() {
  const s = new URLSearchParams(location.hash.slice(1)), number = (name, below) => {
    const n = Number(s.get(name) ?? -1);
    return Number.isInteger(n) && n < below ? n : -1;
  };
  restoring = true;
  const by = s.get("by") === "time" && !data.moments ? "line" : s.get("by");
  if ((by || "line") !== shape) show_as(["function", "time"].includes(by) ? by : "line");
  if (before && (s.get("widths") === "before") !== (now === before)) widths(now === after ? before : after);
  if ((s.get("root") === "bottom") === icicle) flip();
  order = orders[s.get("order")] ? s.get("order") : "Self";
  $("panel").hidden = s.has("table") ? s.get("table") === "no" : !wide;
  $("table").setAttribute("aria-expanded", !$("panel").hidden);
  $("search").value = s.get("search") || "";
  search($("search").value);
  const f = number("function", functions_of(frames).list.length);
  if (f >= 0) choose(f);
  measure();
  zoom_to(Math.max(0, number("zoom", count)));
  if (!zoom) selected = -1;
  last_zoom = zoom;
  tell();
  restoring = false;
}

// Copy the name of a frame. Where the clipboard is refused, as without https, an element is copied as a person would.
function copy(i) {
  const name = frames[frame[i]].title.replace(/[\u2068\u2069]/g, ""), said = () => { $("matched").textContent = "copied"; };
  const by_hand = () => {
    const area = document.createElement("textarea");
    area.value = name;
    document.body.append(area);
    area.select();
    if (document.execCommand("copy")) said();
    area.remove();
    view.focus();
  };
  if (navigator.clipboard) navigator.clipboard.writeText(name).then(said, by_hand);
  else by_hand();
}

addEventListener("popstate", restore);
if (location.hash.length > 1) restore();
restoring = false;
