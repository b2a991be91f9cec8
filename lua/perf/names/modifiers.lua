-- Event modifiers: the letters after an event's last colon, with perf(1)'s meaning.
--
--     u k h   count user space, the kernel, the hypervisor: naming some excludes the others
--     G H     count guests, the host: naming one excludes the other
--     I       not while the CPU idles
--     p pp ppp  precise_ip 1, 2, 3;  P  the highest that the PMU supports
--     D e     pinned to its counter, alone on its PMU: only for a group's leader
--     S       samples carry the group's counts
--     W b     weak group, BPF counter: not attr fields, but marks on the resolved event
--
-- The modifiers of a group are appended to those of its members.
local pairs_of = require "perf.base.pairs"

local modifiers = {}

modifiers.letters = "ukhGHIpPDeSWb"

-- Naming the first excludes all others; each further name includes that level again.
local LEVELS = {u = "exclude_user", k = "exclude_kernel", h = "exclude_hv"}
local WORLDS = {G = "exclude_guest", H = "exclude_host"}

-- Check the letters of one event or group.
-- @return[1] nil if they are valid
-- @return[2] the index of the letter and a message
function modifiers.check(text)
  local i = text:find("[^" .. modifiers.letters .. "]")
  if i then return i, ("unknown modifier '%s'@@; there are %s"):format(text:sub(i, i), modifiers.letters) end
  for n, letter in text:gmatch("()([^p])") do
    if text:find(letter, n + 1, true) then return text:find(letter, n + 1, true), ("modifier '%s' twice@@"):format(letter) end
  end
end

local function only(attr, text, fields)
  local any, excluded = false, false
  for letter, field in pairs_of(fields) do
    any = any or text:find(letter, 1, true) ~= nil
    excluded = excluded or attr[field] == true
  end
  if not any then return end
  for letter, field in pairs_of(fields) do
    if text:find(letter, 1, true) then
      attr[field] = nil
    elseif not excluded then
      attr[field] = true
    end
  end
end

-- Apply the letters to an attr.
-- @tparam table attr attr fields, changed
-- @string text only letters of modifiers.letters
-- @int[opt=0] max_precise the value for P
-- @return[1] marks: {weak=true or nil, bpf=true or nil}
-- @return[2] nil and the error
function modifiers.apply(attr, text, max_precise)
  only(attr, text, LEVELS)
  only(attr, text, WORLDS)
  local _, precise = text:gsub("p", "")
  precise = precise + (attr.precise_ip or 0)
  if precise > 3 then return nil, "precise_ip is at most 3 (ppp)" end
  if text:find("P", 1, true) then precise = math.max(precise, max_precise or 0) end
  if precise > 0 then attr.precise_ip = precise end
  if text:find("I", 1, true) then attr.exclude_idle = true end
  if text:find("D", 1, true) then attr.pinned = true end
  if text:find("e", 1, true) then attr.exclusive = true end
  if text:find("S", 1, true) then
    attr.sample_type = {"read", "id"}
    attr.read_format = {"total_time_enabled", "total_time_running", "id", "group"}
  end
  return {weak = text:find("W", 1, true) and true or nil, bpf = text:find("b", 1, true) and true or nil}
end

-- The letters of a group's modifiers that apply to its members other than the leader.
function modifiers.of_member(text)
  return (text:gsub("[De]", ""))
end

return modifiers
