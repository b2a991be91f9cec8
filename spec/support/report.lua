--- The output handler of this tree's busted runs: prints failures, and writes each event of the run as a
-- line into $PERF_RESULT, so that a run that crashes is still counted:
--
--     start NAME | pass | fail | skip NEED; NEED | why FILE:LINE<tab>NAME<tab>MESSAGE | slow SECONDS NAME | done
--
-- A spec's line is written after its last after_each, which may still fail it; "why" comes before its "fail".
return function()
  local busted = require "busted"
  local handler = {}
  local out = assert(io.open(os.getenv("PERF_RESULT") or "/dev/null", "a"))
  local current, last -- the running spec; the spec whose line is not written yet
  local counts = {pass = 0, fail = 0, skip = 0}

  local function write(...)
    out:write(...)
    out:write("\n")
    out:flush()
  end

  local function flush()
    if not last then return end
    counts[last.status] = counts[last.status] + 1
    if last.status == "fail" and last.why then write("why ", last.why) end
    write(last.status, last.needs and " " .. last.needs or "")
    last = nil
  end

  local function full_name(element)
    local names = {}
    while element do
      if element.descriptor ~= "suite" and element.name then table.insert(names, 1, element.name) end
      element = busted.parent(element)
    end
    return table.concat(names, " > ")
  end

  local function say(kind, element, message, trace)
    io.stdout:write("\n", kind, ": ", full_name(element), "\n    ",
      (tostring(message):gsub("\n", "\n    ")), "\n")
    if trace and trace.traceback and kind == "error" then
      io.stdout:write("    ", (trace.traceback:gsub("^\n", ""):gsub("\n", "\n    ")), "\n")
    end
    io.stdout:flush()
  end

  -- One line for the list of failures, with the position in the spec's file that the message names, or else the spec's position.
  local function why_of(element, message)
    local file, line = element.trace and element.trace.short_src, element.trace and element.trace.currentline
    local names, parent = {}, element
    while parent do
      if parent.descriptor == "file" then
        file = file or parent.name
      elseif parent.descriptor ~= "suite" and parent.name then
        table.insert(names, 1, parent.name)
      end
      parent = busted.parent(parent)
    end
    local function one_line(text) return (text:gsub("%s+", " "):gsub("^ ", "")) end
    local text = one_line(tostring(message)):gsub("Expected objects to be [^.]*%. ", ""):gsub("%(table: 0x%x+%) ", "")
    local own = file and "^" .. file:gsub("%p", "%%%0") .. ":(%d+): "
    if own and text:find(own) then
      line, text = text:match(own), text:gsub(own, "")
    end
    return ("%s:%s\t%s\t%s"):format(file or "?", line or "?", one_line(table.concat(names, " ")), text:sub(1, 200))
  end

  local function needs_of(message)
    local text = message and (message:match("needs: (.*)$") or message:gsub("^[^ ]+:%d+: ", ""))
    return (text and text ~= "" and text:gsub("\n.*", "") or "no reason given"):gsub(", ", "; ")
  end

  function handler.start(element)
    flush()
    current = {}
    write("start ", (full_name(element):gsub("\n", " ")))
    return nil, true
  end

  function handler.finish(element, _, status)
    if (element.duration or 0) > 0.2 then
      write(("slow %.1f "):format(element.duration), (full_name(element):gsub("\n", " ")))
    end
    last = {status = status == "success" and "pass" or status == "pending" and "skip" or "fail",
      element = element, why = current.why}
    if last.status == "skip" then last.needs = (needs_of(current.message)) end
    current = nil
    return nil, true
  end

  function handler.pending(element, _, message, trace)
    if current then
      current.message = message
    elseif element.descriptor == "before_each" then
      flush()
      last = {status = "skip", needs = (needs_of(message))}
    else
      handler.bad(element, nil, "a need is asked for in `it` or `before_each` only: " .. message, trace)
    end
    return nil, true
  end

  function handler.bad(element, _, message, trace)
    if tostring(message):find "interrupted!$" then os.exit(130) end -- the interpreter raises this after ^C
    if element.descriptor == "it" then -- counted at its end
      say("failure", element, message, trace)
      if current then current.why = current.why or why_of(element, message) end
    else
      say("error", element.descriptor == "after_each" and last and last.element or element, message, trace)
      if element.descriptor == "after_each" and last then
        last.status, last.needs = "fail", nil
        last.why = last.why or why_of(last.element or element, message)
      else
        flush()
        last = {status = "fail", why = why_of(element, message)}
      end
    end
    return nil, true
  end

  function handler.suite_end()
    flush()
    write("done")
    -- LeakSanitizer inspects all threads when the process ends, and crashes if one ends at that moment.
    if os.getenv "PERF_SAN" then
      local util = require "spec.support.util"
      util.eventually(function() return util.read_file "/proc/self/status":find "\nThreads:\t1\n" end)
    end
    if not os.getenv("PERF_RESULT") then
      io.stdout:write(("\n%d passed, %d failed, %d skipped\n"):format(counts.pass, counts.fail, counts.skip))
    end
    return nil, true
  end

  function handler.subscribe()
    busted.subscribe({"test", "start"}, handler.start)
    busted.subscribe({"test", "end"}, handler.finish)
    busted.subscribe({"pending"}, handler.pending)
    busted.subscribe({"failure"}, handler.bad)
    busted.subscribe({"error"}, handler.bad)
    busted.subscribe({"suite", "end"}, handler.suite_end)
  end

  return handler
end
