-- The story: a stack of LuaJIT ended early, and was not counted as cut, if an instruction that had called a function, or the base
-- of the running one, could not be read: the address was 0 then, which was taken for the bottom of the stack.
local kit = require "testkit"

describe("a stack of which a read of memory fails", function()
  -- The unwinder of PUC Lua leaves out one call that cannot be read, since it may be beginning or ending.
  before_each(function() requires { registers = true, lua = "luajit" } end)

  it("is whole, or the failure is known", function()
    assert(kit.unwind.learn())
    local refused
    local function inner() local sample = kit.unwind.here(0, refused) return sample end
    local function outer() local ok, sample = pcall(inner) return ok and sample end
    local function middle(...) local sample = outer() return sample, ... end
    local function look(k)
      refused = k
      local sample = middle(1, 2)
      return sample
    end
    local whole, silent = look(0), {}
    assert.is_nil(whole.failed)
    assert.is_true(whole.reads > 10 and whole.n > 10)
    for k = 1, whole.reads do
      local sample = look(k)
      if sample.n < whole.n and not sample.failed then
        silent[#silent + 1] = ("%d: %d of %d"):format(k, sample.n, whole.n)
      end
    end
    assert.same({}, silent)
  end)
end)
