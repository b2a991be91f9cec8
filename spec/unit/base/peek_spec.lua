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

  it("leaves a later handler in force at the end, and never makes a circle with it", function()
    assert.same({ 0, "true" }, { kit.fork(function()
      local at = kit.region "guarded"
      core.peek_take()
      kit.handle_faults "plain" -- it may pass faults on to ours
      core.peek_give()
      assert(kit.fault(at).signal == SEGV)
      core.peek_take()
      assert(not core.peek_ready() and core.peek(at, 8) == nil)
      kit.handle_faults(false) -- ours
      assert(core.peek_ready() == loads and core.peek(at, 8) == nil)
      core.peek_give()
      return not core.peek_ready()
    end) })
  end)
end)
