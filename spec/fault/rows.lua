--- All rows: see inject.lua.
local rows, parts = {}, {}
for i, part in ipairs { "event", "record", "profile", "heap", "trace", "pool", "resty", "data", "kernel" } do
  parts[i] = require("spec.fault.rows." .. part)
  for _, row in ipairs(parts[i]) do rows[#rows + 1] = row end
end

--- Removes the files and objects that the rows have made.
function rows.teardown()
  for _, part in ipairs(parts) do
    if part.teardown then part.teardown() end
  end
end

return rows
