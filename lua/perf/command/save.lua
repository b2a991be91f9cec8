-- Writes the profile of a run.
local core = require "perf.core"
local formats = require "perf.profile.report.formats"
local terminal = require "perf.command.terminal"

-- Write a profile; if that fails, write it to another directory, so that the run is not lost.
-- @return the path of the file that was written; nil if there is none. Errors are printed
return function(prof, path)
  local ok, message = formats.save(prof, path)
  if ok then return path end
  terminal.error(message)
  local other = ("%s/luaperf-%d.json"):format(os.getenv "TMPDIR" or "/tmp", (core.pid()))
  ok, message = prof:speedscope(other)
  if ok then return other end
  terminal.error(message)
end
