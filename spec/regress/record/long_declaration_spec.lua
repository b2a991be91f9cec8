-- The story: formats of tracepoints are read from perf.data files. Lua's patterns took quadratic time to find the end of a
-- declaration: 2 seconds for one of 20 kB, and hours for the longest format that is accepted.
local SIZE = 1000000

describe("a declaration of a million bytes in a tracepoint's format", function()
  before_each(function() requires { ext = "tracefields" } end)

  local function parse(declaration)
    local text = "name: x\nID: 1\nformat:\n\tfield:" .. declaration .. ";\toffset:0;\tsize:4;\tsigned:0;\n"
    return require("perf.record.tracefields").parse(text, { system = "s" })
  end

  it("is refused at once if it has no name", function()
    for _, declaration in ipairs { ("a"):rep(SIZE) .. "!", "int " .. (" "):rep(SIZE) .. "a!", "int a" .. ("]"):rep(SIZE) } do
      local format, _, code = parse(declaration)
      assert.is_nil(format)
      assert.equal("EBADMSG", code)
    end
  end)

  it("is read at once", function()
    for type, declaration in pairs {
      [("u"):rep(SIZE)] = ("u"):rep(SIZE) .. " a", int = "int a" .. (" "):rep(SIZE), ["int" .. ("[1]"):rep(SIZE / 4)] = "int a"
        .. ("[1]"):rep(SIZE / 4),
    } do
      local field = assert(parse(declaration)):fields()[1]
      assert.equal("a", field.name)
      assert.is_true(type == field.type)
    end
  end)
end)
