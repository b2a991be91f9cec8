-- The story: `make doc` failed if Lua 5.4 was installed, but neither 5.1 nor 5.2: Debian's ldoc starts only these two, by the
-- command lua-any, although its package depends on any Lua. The message was "no suitable Lua interpreter found".
-- Once: it checks a tool.
local util = require "spec.support.util"

it("the reference is made where Debian's ldoc finds no interpreter", function()
  requires { cmd = "ldoc", module = "discount" }
  util.with_directory(function(dir)
    os.execute(("mkdir %s/fakes && cp -r config.ld *.md csrc doc lua tools %s"):format(dir, dir))
    util.write_file(dir .. "/fakes/lua-any", "#!/bin/sh\necho no suitable Lua interpreter found\nexit 1\n")
    os.execute(("chmod +x %s/fakes/lua-any"):format(dir))
    local output, status = util.shell(("cd %s && PATH=%s/fakes:$PATH tools/reference.sh 2>&1"):format(dir, dir))
    assert.equal(0, status, output)
    assert.matches("<h1>Module <code>event</code></h1>", util.read_file(dir .. "/build/doc/components/event.html"), 1, true)
  end)
end)
