-- The formats in which a profile can be written. Each is a report, whose module has the same name.
--
-- A file's name selects the format by its ending. A name without an ending selects speedscope's, which luaperf report reads
-- again.
--
--     option, help   of luaperf report
--     endings        the usual one is the first; ".gz" may follow each
--     usual          how many of them a message names, if not 1
--     content_type   for a page that shows the report; perf_data has none, since it writes two files
--     download       the ending for a browser that saves the page
local M = {
  { name = "flamegraph", option = "html", help = "a flame graph, one file that works offline", endings = { "html", "svg", "htm" },
    usual = 2, content_type = "text/html; charset=utf-8" },
  { name = "folded", option = "folded", help = "folded stacks, for flame graph tools", endings = { "folded", "txt" },
    content_type = "text/plain; charset=utf-8", download = "folded" },
  { name = "pprof", option = "pprof", help = "for go tool pprof", endings = { "pb.gz", "pprof" },
    content_type = "application/octet-stream", download = "pb.gz" },
  { name = "perf_data", option = "perf_data", help = "for perf report", endings = { "data" } },
  { name = "speedscope", option = "speedscope", help = "for www.speedscope.app", endings = { "json" },
    content_type = "application/json", download = "speedscope.json" },
}

local function without_gz(name) return (name:gsub("%.gz$", "")) end

local by_ending, usual = {}, {}
for _, format in ipairs(M) do
  for i, ending in ipairs(format.endings) do
    if i <= (format.usual or 1) then usual[#usual + 1] = "." .. ending end
    by_ending[without_gz(ending)] = format.name
  end
end
usual = table.concat(usual, ", ", 1, #usual - 1) .. " and " .. usual[#usual]

-- The format's name for a file's name; or nil and the error if its ending is unknown.
function M.of(path)
  local ending = without_gz(path:lower()):match "%.(%w+)$"
  local name = not ending and "speedscope" or by_ending[ending]
  if name then return name end
  return nil, ("%s: unknown ending; %s are known"):format(path, usual)
end

-- Write a profile; the file's name selects the format.
-- @param prof Profile
-- @return true; or nil, message, code
function M.save(prof, path) return prof[M.of(path)](prof, path) end

return M
