--- Event modifiers: the letters after an event's last colon, as perf(1) reads them.
--
--     u k h   count user space, the kernel, the hypervisor: naming some excludes the others
--     G H     count guests, the host: naming one excludes the other
--     I       not while the CPU idles
--     p pp ppp  precise_ip 1, 2, 3;  P  the highest that the PMU has
--     D e     pinned to its counter, alone on its PMU: of a group's leader only
--     S       samples carry the group's counts
--     W b     weak group, BPF counter: not attr fields; they are marks on the resolved event
--
-- @module perf.names.modifiers

local modifiers = {}

modifiers.letters = "ukhGHIpPDeSWb"

--- The first character of text that is no modifier.
-- @string text
-- @return its index and itself, or nil when all are
function modifiers.bad(text)
  local i = text:find("[^" .. modifiers.letters .. "]")
  if i then return i, text:sub(i, i) end
end

local function exclude(attr, text, letters, fields)
  if not text:find("[" .. letters .. "]") then return end
  for i, field in ipairs(fields) do
    if not text:find(letters:sub(i, i), 1, true) then attr[field] = true end
  end
end

--- Set what the letters mean.
-- @tparam table attr attr fields, changed
-- @string text only letters of modifiers.letters
-- @int[opt=0] max_precise what P stands for
-- @return marks: a table with weak or bpf set
-- @return nil, or what is wrong
function modifiers.apply(attr, text, max_precise)
  exclude(attr, text, "ukh", {"exclude_user", "exclude_kernel", "exclude_hv"})
  exclude(attr, text, "HG", {"exclude_host", "exclude_guest"})
  local _, precise = text:gsub("p", "")
  if precise > 3 then return nil, "more than three p" end
  if text:find("P", 1, true) then precise = math.max(precise, max_precise or 0) end
  if precise > 0 then attr.precise_ip = precise end
  if text:find("I", 1, true) then attr.exclude_idle = true end
  if text:find("D", 1, true) then attr.pinned = true end
  if text:find("e", 1, true) then attr.exclusive = true end
  if text:find("S", 1, true) then
    attr.sample_type, attr.read_format = {"read", "id"}, {"id", "group"}
  end
  return {weak = text:find("W", 1, true) and true, bpf = text:find("b", 1, true) and true}
end

--- The letters of a group's modifier that its members other than the leader take.
-- @string text
function modifiers.of_member(text)
  return (text:gsub("[De]", ""))
end

return modifiers
