-- Small files of sysfs and tracefs.
local reclaim = require "perf.base.reclaim"

local files = {}

-- The errors for lack of a descriptor or of memory, by number and by name. After one of them, the file or directory may exist.
files.lack = { [12] = "ENOMEM", [23] = "ENFILE", [24] = "EMFILE", ENOMEM = "ENOMEM", ENFILE = "ENFILE", EMFILE = "EMFILE" }

-- Whether text can be one component of a path, so that it cannot name a file outside of the directory.
function files.is_name(text)
  return text ~= "" and text ~= "." and text ~= ".." and not text:find("[/%c]")
end

-- A file's text without the newline at its end.
-- @return the text; or nil if the file cannot be read, and the number and the message of the error if it cannot be opened
function files.read(path)
  local f, message, number = reclaim.open_file(path, "r")
  if not f then return nil, number, message end
  local text = f:read("*a")
  f:close()
  return text and (text:gsub("\n+$", ""))
end

-- A glob ("*", "?") as an anchored Lua pattern.
function files.pattern(glob)
  return "^" .. glob:gsub("[%^%$%(%)%%%.%[%]%+%-]", "%%%0"):gsub("[*?]", {["*"] = ".*", ["?"] = "."}) .. "$"
end

-- Whether text matches the glob or, if the glob has no * and ?, contains it.
-- @string[opt] glob nil matches every text
function files.matches(text, glob)
  if not glob then return true end
  if glob:find("[*?]") then return text:find(files.pattern(glob)) ~= nil end
  return text:find(glob, 1, true) ~= nil
end

return files
