-- The module `discount` for LDoc, for releases without lua-discount: Discount's own command renders the markdown.
return function(text)
  local path = os.tmpname()
  local input = assert(io.popen("markdown >" .. path, "w"))
  assert(input:write(text))
  input:close()
  local output = assert(io.open(path))
  local html = output:read "*a"
  output:close()
  os.remove(path)
  return html
end
