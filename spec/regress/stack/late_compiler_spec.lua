-- The story: LuaJIT counts all loops in 64 shared counters, so the penalty for a loop that could not be compiled may delay
-- another one by thousands of iterations. The loops from which the layout is learned ran 300 times. In one process of fifty, one
-- of them was not compiled, and the lines that allocate in compiled loops were unknown.
local util = require "spec.support.util"

describe("the layout of LuaJIT, learned where loops are compiled late,", function()
  for _, hotloop in ipairs { 1000, 30000 } do
    it("is that of the compiler too, after " .. hotloop .. " iterations", function()
      requires { lua = "luajit", perf_open = "user", registers = true }
      util.with_tmpname(function(path)
        util.write_file(path, ([[
          jit.opt.start("hotloop=%d")
          local perf = require "perf"
          local function allocates(t, n)
            local s = 0
            for i = 1, n do
              s = s + i %% 7
              t[1] = { i, i + 1, i + 2, i + 3 }
              s = s - i %% 5
            end
            return s
          end
          local prof = assert(perf.profile({ event = "task-clock:u", freq = 4000 }, function()
            for _ = 1, 10 do allocates({}, 3e5) end
          end))
          local collected, there = 0, 0
          for _, s in ipairs(prof:samples()) do
            if s.stack[1].name == "(garbage collector)" then
              local f = s.stack[2]
              collected = collected + s.weight
              there = there + (f.line == 7 and (f.lastline or f.line) == 7 and s.weight or 0)
            end
          end
          io.write(prof.method, collected > 0 and there >= 0.9 * collected and " line" or " range")
        ]]):format(hotloop))
        local output, status = util.shell(("%s %s"):format(util.lua(), path))
        assert.same({ "registers line", 0 }, { output, status })
      end)
    end)
  end
end)
