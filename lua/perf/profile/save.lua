-- Saves a profile; the file's name selects the format.
--
--     .html .htm    flame graph            .pb .pb.gz .pprof    pprof
--     .folded .txt  folded stacks          .data                perf.data
--     .json, and a name without an ending  speedscope, which luaperf report reads again
local M = {}

local endings = { html = "flamegraph", htm = "flamegraph", folded = "folded", txt = "folded", pb = "pprof", pprof = "pprof",
  data = "perf_data", json = "speedscope" }

-- The report for a file's name; or nil and the error if its ending is unknown.
function M.kind(path)
  local ending = path:lower():gsub("%.gz$", ""):match "%.(%w+)$"
  local kind = not ending and "speedscope" or endings[ending]
  if kind then return kind end
  return nil, ("%s: unknown ending; .html, .folded, .pb.gz, .data and .json are known"):format(path)
end

-- Write a profile.
-- @param prof Profile
-- @return true; or nil, message, code
function M.save(prof, path)
  return prof[M.kind(path)](prof, path)
end

return M
