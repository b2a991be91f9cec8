-- Finds comments and titles of specs that read like riddles, by patterns: luajit tools/english.lua [FILE...]. Without files it
-- reads the sources of the tree, and looks for conflict markers in all files. Each finding is printed with a plain form.

-- {pattern of lower-case text, plain form}; "^" stands for the beginning of a comment.
local riddles = {
  { "^wh[ao][a-z]* [^?]*$", "begin with the subject, or with what the code does" },
  { "^where [^?]*$", "begin with the subject; 'the position of', 'if'" },
  { "%f[%a]whom%f[%A]", "name the thread, the user or the caller" },
  { "%f[%a]whoever%f[%A]", "name the caller, the user or the process" },
  { "%f[%a]for who%f[%A]", "'for callers that'" },
  { "%f[%a]to who%f[%A]", "'for users who'" },
  { "%f[%a]whose turn it is%f[%A]", "name the one that is next" },
  { "%f[%a]somebody%f[%A]", "name the caller, the user or the process" },
  { "%f[%a]what is no%f[%A]", "'a value that is not', 'an invalid'" },
  { "%f[%a]what is none%f[%A]", "'other values'" },
  { "%f[%a]that there is%f[%A]", "'that exists', 'every'" },
  { "%f[%a]be had%f[%A]", "'is available', 'can be fetched'" },
  { "%f[%a]is had%f[%A]", "'is available'" },
  { "%f[%a]gives way%f[%A]", "'is closed', 'ends'" },
  { "%f[%a]makes do%f[%A]", "'uses'" },
  { "%f[%a]for want of%f[%A]", "'for lack of'" },
  { "%f[%a]that is no [^lm]", "'that is not a'" },
  { "%f[%a]it is no [^lm]", "'it is not a'" },
  { "%f[%a]anybody%f[%A]", "name the caller, the user or the process" },
  { "%f[%a]told to nobody%f[%A]", "'lost', 'not reported'" },
  { "%f[%a]is none of%f[%A]", "'does not belong to'" },
  { "%f[%a]knows nothing of%f[%A]", "'does not know'" },
  { "%f[%a]as it comes%f[%A]", "'while it is written'" },
  { "%f[%a]whatever comes%f[%A]", "name the cases" },
  { "%f[%a]told apart%f[%A]", "'distinguished'" },
  { "%f[%a]and its like%f[%A]", "'and related functions'" },
  { "%f[%a]of one's own%f[%A]", "'its own', 'a separate'" },
  { "%f[%a]what there is%f[%A]", "'everything that exists', 'the present one'" },
  { "%f[%a]stood in%f[%A]", "'was in', 'contained'" },
  { "%f[%a]goes by%f[%A]", "'uses', 'depends on'" },
  { "%f[%a]takes? no account%f[%A]", "'ignores'" },
  { "%f[%a]gave way%f[%A]", "'was closed', 'ended'" },
  { "%f[%a]as it comes to%f[%A]", "'when'" },
}

-- The text of a line that people read: a comment, or a title of a spec; and whether the line begins the comment.
local function texts(line, before)
  local text = line:match "^%s*%-%-+%s*(.*)" or line:match "^%s*/%*+%s*(.*)" or line:match "^%s*#%s+(.*)"
  if text then return text, not before end
  text = line:match "%s%-%-%s+(.*)$" or line:match "/%*%s+(.*)%*/"
  if text then return text, true end
  return line:match "^%s*it%((%b\"\")" or line:match "^%s*describe%((%b\"\")" or before and line:match "^%s*%*%s+(.*)", false
end

local function check(path)
  local file = io.open(path)
  local n, inside, found = 0, false, 0
  for line in file and file:lines() or function() end do
    n = n + 1
    local text, begins = texts(line, inside)
    inside = text and not line:find("*/", 1, true)
    for _, riddle in ipairs(text and riddles or {}) do
      if (begins or riddle[1]:sub(1, 1) ~= "^") and text:lower():find(riddle[1]) then
        found = found + 1
        print(("%s:%d: %s\n    plain: %s"):format(path, n, text, riddle[2]))
        break
      end
    end
  end
  if file then file:close() end
  return found
end

local found = 0
if arg[1] then
  for _, path in ipairs(arg) do found = found + check(path) end
else
  local files = assert(io.popen "git ls-files -- csrc lua spec tools mk bench examples Makefile")
  for path in files:lines() do
    local source = path:find "%.[ch]$" or path:find "%.lua$" or path:find "%.def$" or path:find "%.sh$" or path:find "%.mk$"
    if (source or path == "Makefile") and not path:find "english[%w_]*%.lua$" then found = found + check(path) end
  end
  files:close()
  -- A line of seven "=" underlines a title in Markdown.
  local markers = assert(io.popen "git grep -nIE '^[<>|]{7} '; git grep -nIE '^={7}$' -- ':!*.md'")
  for line in markers:lines() do
    found = found + 1
    print(line .. "\n    plain: resolve the conflict")
  end
  markers:close()
end
os.exit(found == 0 and 0 or 1)
