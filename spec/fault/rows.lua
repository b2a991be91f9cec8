--- All rows: see inject.lua.
local rows, parts = {}, {}
for i, part in ipairs { "events", "records", "profile", "trace", "pool", "resty", "files", "machine" } do
  parts[i] = require("spec.fault.rows_" .. part)
  for _, row in ipairs(parts[i]) do rows[#rows + 1] = row end
end

--- Removes what the rows' files made.
function rows.teardown()
  for _, part in ipairs(parts) do
    if part.teardown then part.teardown() end
  end
end

return rows
