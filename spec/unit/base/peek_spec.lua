-- Reading memory that may be unmapped. The handler of our loads must not change what a program sees of its own faults.
local core = require "perf.core"
local kit = require "testkit"

local SEGV, BUS = 11, 7

describe("a look at memory", function()
  local loads -- whether this machine has our loads

  setup(function()
    core.peek_take()
    loads = core.peek_ready()
    core.peek_give()
  end)

  local function taken(fn, ...)
    core.peek_take()
    local ok, err = pcall(fn, ...)
    core.peek_give()
    if not ok then error(err, 0) end
  end

  local function handled(how, fn)
    kit.handle_faults(how)
    local ok, err = pcall(fn)
    kit.handle_faults(false)
    if not ok then error(err, 0) end
  end

  for _, how in ipairs { "any", "load", "call" } do
    it("copies any number of bytes, or fails: " .. how, function()
      taken(function()
        if how == "load" and not loads then return end
        local ending = kit.region "ending"
        assert.equal("fine", core.peek(ending, 4, how))
        for n = 0, 60 do
          assert.equal(kit.peek(ending - 100, n), core.peek(ending - 100, n, how))
          assert.equal(kit.peek(ending + 4 - n, n), core.peek(ending + 4 - n, n, how))
          assert.equal(n > 4 and "fails" or "reads", core.peek(ending, n, how) and "reads" or "fails")
          assert.equal(n > 0 and "fails" or "reads", core.peek(ending + 5 - n, n, how) and "reads" or "fails") -- its last byte
        end
        for _, kind in ipairs { "unmapped", "guarded", "file" } do
          local at = kit.region(kind)
          for _, n in ipairs { 1, 4, 8, 15, 64 } do assert.is_nil(core.peek(at, n, how), kind) end
        end
        -- nothing, the kernel's, and on x86-64 no address at all
        for _, at in ipairs { "0x0", "0x8", "0xffffffff81000000", "0x8000000000000000", "0xfffffffffffffff8" } do
          assert.is_nil(core.peek(at, 8, how), at)
        end
      end)
    end)
  end

  it("serves several users at once", function()
    taken(function()
      taken(function() assert.is_nil(core.peek(kit.region "guarded", 8)) end)
      assert.equal(loads, core.peek_ready())
      assert.is_nil(core.peek(kit.region "guarded", 8))
    end)
    assert.is_false(core.peek_ready())
  end)

  it("works in another thread, and in the child of a fork", function()
    taken(function()
      local at = kit.region "guarded"
      local function look() return core.peek_ready() == loads and core.peek(at, 8) == nil end
      assert.is_true(look())
      assert.same({ true, true }, { kit.elsewhere(look) })
      assert.same({ 0, "true" }, { kit.fork(look) })
      assert.same({ 0, "false" }, { kit.fork(function()
        core.peek_give()
        return core.peek_ready()
      end) })
    end)
  end)

  it("leaves the program's own faults to the program", function()
    for _, how in ipairs { "plain", "stack" } do
      kit.alternate_stack(65536)
      handled(how, function()
        local guarded, unmapped, file = kit.region "guarded", kit.region "unmapped", kit.region "file"
        local function faults()
          assert.is_false(kit.fault(kit.region "ending"))
          return { kit.fault(guarded), kit.fault(unmapped), kit.fault(file) }
        end
        local alone = faults()
        assert.same({ signal = SEGV, code = 2, address = guarded, on_stack = how == "stack", blocks_usr1 = true }, alone[1])
        assert.equal(BUS, alone[3].signal)
        taken(function()
          assert.equal(loads, core.peek_ready())
          assert.is_nil(core.peek(guarded, 8))
          assert.same(alone, faults())
          assert.is_nil(core.peek(file, 8))
          assert.equal(7, kit.send_fault())
        end)
        assert.same(alone, faults())
      end)
      kit.alternate_stack(false)
    end
  end)

  it("leaves a handler that is to run once its single run", function()
    local status = kit.fork(function()
      kit.handle_faults "once"
      core.peek_take()
      assert(kit.fault(kit.region "guarded").signal == SEGV)
      kit.fault(kit.region "guarded")
    end)
    assert.equal(-SEGV, status)
  end)

  it("lets a program without a handler die of its faults", function()
    requires { nosan = true } -- its runtime handles them
    for _, how in ipairs { "fault", "send" } do
      assert.equal(-SEGV, (kit.fork(function()
        core.peek_take()
        if how == "send" then kit.send_fault() else kit.fault(kit.region "guarded") end
        return "lives"
      end)), how)
    end
    assert.equal(-BUS, (kit.fork(function()
      core.peek_take()
      kit.fault(kit.region "file")
    end)))
  end)

  it("asks the kernel while a later handler, or a blocked signal, forbids loads", function()
    taken(function()
      local at = kit.region "guarded"
      handled("plain", function()
        assert.is_false(core.peek_ready())
        assert.is_nil(core.peek(at, 8))
      end)
      assert.equal(loads, core.peek_ready())
      kit.block_faults(true)
      assert.is_false(core.peek_ready())
      assert.is_nil(core.peek(at, 8))
      kit.block_faults(false)
      assert.equal(loads, core.peek_ready())
    end)
  end)

  -- A later handler may pass faults on to ours, which it has replaced. Then ours must not pass them back.
  it("uses loads again after a later handler has come, on top of it", function()
    assert.same({ 0, "true" }, { kit.fork(function()
      local at = kit.region "guarded"
      kit.alternate_stack(65536)
      core.peek_take()
      kit.handle_faults "stack"
      core.peek_give()
      local alone = kit.fault(at)
      assert(alone.signal == SEGV and alone.on_stack)
      core.peek_take()
      assert(core.peek_ready() == loads and core.peek(at, 8) == nil)
      assert.same(alone, kit.fault(at))
      assert(kit.send_fault() == 3)
      core.peek_give()
      assert(not core.peek_ready() and kit.fault(at).signal == SEGV)
      core.peek_take()
      kit.handle_faults(false) -- the first of ours
      assert(core.peek_ready() == loads and core.peek(at, 8) == nil)
      core.peek_give()
      return not core.peek_ready()
    end) })
  end)

  it("uses loads again during the next of two profiles that overlap", function()
    assert.same({ 0, "true" }, { kit.fork(function()
      local at = kit.region "guarded"
      core.peek_take()
      kit.handle_faults "plain"
      core.peek_take()
      assert(core.peek_ready() == loads and core.peek(at, 8) == nil)
      core.peek_give()
      assert(core.peek_ready() == loads and kit.fault(at).signal == SEGV)
      core.peek_give()
      return not core.peek_ready() and kit.fault(at).signal == SEGV
    end) })
  end)

  it("lets a later handler pass faults on, which end the program in the end", function()
    requires { nosan = true } -- its runtime handles them
    assert.equal(-SEGV, (kit.fork(function()
      core.peek_take()
      kit.link_handler(1)
      core.peek_give()
      core.peek_take()
      kit.fault(kit.region "guarded")
      return "lives"
    end)))
  end)

  -- Each handler passes a fault on to the one that it has replaced, so the order in which they get it is known; ours must not
  -- change it. Handlers come and go in any order, and so do profiles. An order in which the program's own handlers would call
  -- each other for ever is left out.
  for seed = 1, 30 do
    it("keeps the order of a program's handlers: " .. seed, function()
      local status, err = kit.fork(function()
        local at, here, below, taken_n = kit.region "guarded", 1, { 0 }, 0
        math.randomseed(seed)
        kit.no_handler(SEGV) -- that of the other copy of the library may be in force
        kit.link_handler(1)
        local function reaches(from, n)
          while from ~= 0 and from ~= n do from = below[from] end
          return from == n
        end
        for i = 1, 300 do
          local what, n = math.random(5), math.random(2, 6)
          if what == 1 and taken_n < 3 then
            core.peek_take()
            taken_n = taken_n + 1
          elseif what == 2 and taken_n > 0 then
            core.peek_give()
            taken_n = taken_n - 1
          elseif what == 3 and not reaches(here, n) then
            kit.link_handler(n)
            below[n], here = here, n
          elseif what == 4 and below[n] then
            kit.unlink_handler(n)
            here = below[n]
          end
          local expected, h = "", here
          while h ~= 0 do expected, h = expected .. h, below[h] end
          local got, same = kit.fault_chain(at)
          assert(got == expected and same, ("%d: %s instead of %s"):format(i, got, expected))
          if taken_n > 0 then assert(core.peek(at, 8) == nil) end
        end
      end)
      assert.equal(0, status, err)
    end)
  end
end)
