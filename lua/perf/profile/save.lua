-- Saves a profile; the file's name selects the format.
--
--     .html .htm    flame graph            .pb .pb.gz .pprof    pprof
--     .folded .txt  folded stacks          .data                perf.data
--     .json and anything else              speedscope, which luaperf report reads again
local M = {}

local endings = { html = "flamegraph", htm = "flamegraph", folded = "folded", txt = "folded", pb = "pprof", pprof = "pprof",
  data = "perf_data" }

-- The report for a file's name.
function M.kind(path)
  local name = path:lower():gsub("%.gz$", "")
  return endings[name:match "%.(%w+)$" or ""] or "speedscope"
end

-- Write a profile.
-- @param prof Profile
-- @return true; or nil, message, code
function M.save(prof, path)
  return prof[M.kind(path)](prof, path)
end

return M
