--- An exporter that passes its requests to a function, which answers them, instead of sending them.
local perf = require "perf"

--- @string kind "otlp" or "zipkin"
-- @func[opt] answer called with each request ({url=, headers=, body=}) and its number; returns status, headers and body, or nil
-- and a message; 200 unless given
-- @tab[opt] options the exporter's
-- @return exporter; array of the bodies so far
return function(kind, answer, options)
  local exporter, bodies = perf.exporter[kind](options or {}), {}
  function exporter.transport()
    local transport = { rest = coroutine.yield, wait = function() end, close = function() end }
    function transport.post(request)
      bodies[#bodies + 1] = request.body
      local status, headers, body
      if answer then status, headers, body = answer(request, #bodies) else status = 200 end
      if not status then return nil, headers end
      return status, headers or {}, body or "{}"
    end
    return transport
  end
  return exporter, bodies
end
