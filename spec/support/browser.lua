--- Opens a page in a real browser, Chromium without a display, and runs a script that is appended to the page.
--
--     browser.run(path, "result.push(document.title)")     --> array of what was pushed, as strings
--     browser.run(path, script, {width = 390, height = 700, dark = true, picture = "shot.png"})
--
-- The script runs after the page's own scripts. It can call `view(x, y)`, which converts a point of the page to an event's
-- coordinates, `click(x, y)`, `hover(x, y)`, `key(name)` and `type(text)`.
local json_text = require "dkjson"
local util = require "spec.support.util"

local browser = {}

local head = [[
<pre id="driven" hidden></pre><script>
const result = [], canvas_box = () => document.querySelector("canvas").getBoundingClientRect();
const pointer = (kind, x, y, type) => { const r = canvas_box(); document.querySelector("canvas").dispatchEvent(
  new PointerEvent(kind, {clientX: r.left + x, clientY: r.top + y, bubbles: true, pointerType: type || "mouse"})); };
const click = (x, y) => pointer("click", x, y), hover = (x, y) => pointer("pointermove", x, y);
const key = (name, where) => (where || document.body).dispatchEvent(new KeyboardEvent("keydown", {key: name, bubbles: true,
  cancelable: true}));
const text = id => document.getElementById(id).textContent;
const type = s => { const i = document.getElementById("search"); i.value = s; i.dispatchEvent(new Event("input")); };
let failure = null;
try { (function () {
]]
local tail = [[
})(); } catch (e) { failure = String(e) + " " + e.stack; }
document.getElementById("driven").textContent = "BEGIN" +
  encodeURIComponent(JSON.stringify({result: result.map(String), failure})) + "END";
</script>]]

local function unescape(s)
  return (s:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

--- Returns the array `result` of the script. Raises if the page or the script fails.
function browser.run(path, script, opts)
  opts = opts or {}
  local dir = os.tmpname()
  os.remove(dir)
  os.execute("mkdir " .. dir)
  local page = util.read_file(path)
  local driven = dir .. "/page.html"
  util.write_file(driven, (page:gsub("</body>%s*</html>%s*$", function(close) return head .. script .. tail .. close end)))
  local base = ("timeout 600 chromium --headless --no-sandbox --disable-gpu --no-first-run --user-data-dir=%s/home "
    .. "--window-size=%d,%d --blink-settings=preferredColorScheme=%d"):format(dir, opts.width or 1000, opts.height or 600,
    opts.dark and 0 or 1)
  local dom = util.shell(("%s --dump-dom file://%s 2>%s/errors"):format(base, driven, dir))
  if opts.picture then util.shell(("%s --screenshot=%s file://%s"):format(base, opts.picture, driven)) end
  local errors = util.read_file(dir .. "/errors")
  os.execute("rm -rf " .. dir)
  local got = dom:match 'id="driven" hidden="">BEGIN(.-)END<'
  if not got then error("no answer of the page: " .. dom:sub(-400) .. errors:sub(-1000), 2) end
  local answer = json_text.decode(unescape(got))
  if answer.failure then error("in the page: " .. answer.failure, 2) end
  return answer.result
end

return browser
