-- Folded stacks: one line for each, `outermost;...;innermost weight`, the input of flame graph tools. The zone of a
-- sample is its outermost frame.
--
-- In a frame's name, characters of the format are escaped: `;` is \x3b, an end of line \n or \r, and the backslash \\. Bytes that
-- are not valid UTF-8 are written as \xNN. `decode` restores the names.
local file = require "perf.base.file"
local memo = require "perf.base.memo"
local text = require "perf.profile.report.frame_names"

local M = {}

local escapes = { ["\\"] = "\\\\", [";"] = "\\x3b", ["\n"] = "\\n", ["\r"] = "\\r" }
local unescapes = { ["\\"] = "\\", n = "\n", r = "\r" }

local function encode(name)
  if name == "" then return "(no name)" end
  -- Escape backslashes first: utf8 adds more of them.
  return text.utf8((name:gsub("[\\;\n\r]", escapes)))
end

local function decode(name)
  return (name:gsub("\\(.)(%x?%x?)", function(c, hex)
    if c == "x" and #hex == 2 then return string.char(tonumber(hex, 16)) end
    return unescapes[c] and unescapes[c] .. hex
  end))
end

--- Write a profile as folded stacks.
-- @function Profile:folded
-- @tparam[opt] string path the file; without it the text is returned
-- @treturn string|boolean the text, or true @fails if the file cannot be written
function M.folded(prof, path)
  return file.deliver(path, "folded", function(put, pause)
    local names = memo(function(frame) return encode(frame.name) end)
    local zones = memo(encode)
    -- Make no string of a single stack: they are similar, and LuaJIT's string table is slow with similar strings.
    local parts, n = {}, 0
    for _, sample in ipairs(prof:samples()) do
      local stack, depth, zone = sample.stack, #sample.stack, sample.zone
      if zone then
        parts[n + 1], parts[n + 2] = zones[zone], depth > 0 and ";" or ""
        n = n + 2
      end
      for i = depth, 1, -1 do
        parts[n + 1], parts[n + 2] = names[stack[i]], i > 1 and ";" or ""
        n = n + 2
      end
      parts[n + 1], parts[n + 2] = (depth > 0 or zone) and "" or "(no stack)", (" %.0f\n"):format(text.number(sample.weight))
      n = n + 2
      if n >= 1024 then
        put(table.concat(parts, "", 1, n))
        n = 0
      end
      pause()
    end
    put(table.concat(parts, "", 1, n))
  end, prof.stream)
end

-- Parse folded stacks, of this module or another tool.
-- @return array of {names = array of names, the outermost first, weight = number}; or nil, message, "EBADMSG" for an invalid line
function M.decode(content)
  local list = {}
  for line in content:gmatch "[^\n]+" do
    local stack, weight = (line:match "^.*%S" or ""):match "^(.*) (%S+)$"
    if not stack or not weight:find "^%d+$" and not weight:find "^%d+%.%d*$" then
      return nil, ("line %d: not a folded stack: %s"):format(#list + 1, text.line(line:sub(1, 60))), "EBADMSG"
    end
    local names = {}
    for name in stack:gmatch "[^;]+" do names[#names + 1] = decode(name) end
    list[#list + 1] = { names = names, weight = tonumber(weight) }
  end
  return list
end

return M
