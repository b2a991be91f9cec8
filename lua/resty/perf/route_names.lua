-- The names of routes that the whole server has: those of the configuration, and at most MOST others.
--
-- Clients can make up names by requesting paths that do not exist. So a place is not for ever: a name that was used more than
-- twice as often as another one within the last minute or two takes the other's place, and the other's counts move to "(other)".
-- The names are in the shared dictionary, so they are the same in all workers, and after a reload:
--
--   routes        how many have been given a place
--   name N        the name in place N
--   route NAME    how often it was used, halved each minute
local pairs_of = require "perf.base.pairs"
local routes = require "resty.perf.routes"

local M = {}

M.MOST = 100
local REFUSED, PLACES = 1000, 4 -- the most names that wait for a place; the most that get one in a second
local DECAY = 60

-- The names for a configuration.
-- @param dict ngx.shared.DICT
-- @param configured set of names that always have a place
-- @param[opt] prefix of the keys: peers of waits have their own names
-- @return {admit=, shown=, used=, turn_over=}. admit(name) returns the name, or "(other)"; shown(name) the same, but gives no
-- place; used(uses, forget) adds how often names were used, and calls forget(name) for each that has lost its place; turn_over()
-- gives places to names that deserve them more
function M.new(dict, configured, prefix)
  prefix = prefix or ""
  local known, waiting, number_waiting = {}, {}, 0
  local names = {}

  local function key(name) return prefix .. "route " .. name end
  local function place_key(at) return prefix .. "name " .. at end

  function names.shown(name)
    return (configured[name] or dict:get(key(name))) and name or routes.OTHER
  end

  local function set_waiting(name, n)
    if not waiting[name] then number_waiting = number_waiting + 1 end
    if n == 0 then n, number_waiting = nil, number_waiting - 1 end
    waiting[name] = n
  end

  -- Count a request whose name has no place. If too many names wait, each loses one request, so names that are used only once
  -- disappear and a real route stays.
  local function refuse(name)
    set_waiting(name, (waiting[name] or 0) + 1)
    if number_waiting > REFUSED then
      for k, n in pairs_of(waiting) do set_waiting(k, n - 1) end
    end
    return routes.OTHER
  end

  local function take_place(name)
    local at = dict:safe_add(prefix .. "routes", 0) and 0 or dict:get(prefix .. "routes")
    if not at or at >= M.MOST then return false end
    local ok, message = dict:safe_add(key(name), 0)
    if not ok then return message == "exists" end
    at = dict:incr(prefix .. "routes", 1)
    if at and at <= M.MOST and dict:safe_set(place_key(at), name) then return true end
    dict:delete(key(name))
    return false
  end

  function names.admit(name)
    if known[name] or configured[name] or name == routes.OTHER then return name end
    if not (dict:get(key(name)) or take_place(name)) then return refuse(name) end
    known[name] = true
    return name
  end

  function names.used(uses, forget)
    for name in pairs_of(known) do
      if not dict:incr(key(name), uses[name] or 0) then
        known[name] = nil
        forget(name)
      end
    end
  end

  -- The least used place: its number, its name, and its use.
  local function least()
    local place, loser, use
    for at = 1, M.MOST do
      local name = dict:get(place_key(at))
      local n = name and dict:get(key(name)) or -1
      if not use or n < use then place, loser, use = at, name, n end
    end
    return place, loser, use
  end

  local function most()
    local best
    for name, n in pairs_of(waiting) do
      if not best or n > waiting[best] then best = name end
    end
    return best
  end

  local function decay()
    for at = 1, M.MOST do
      local name = dict:get(place_key(at))
      local n = name and dict:get(key(name))
      if n then dict:incr(key(name), -math.ceil(n / 2)) end
    end
    for name, n in pairs_of(waiting) do set_waiting(name, math.floor(n / 2)) end
  end

  function names.turn_over()
    if (dict:get(prefix .. "routes") or 0) < M.MOST then return end
    if dict:safe_add(prefix .. "decay", true, DECAY) then decay() end
    if number_waiting == 0 or not dict:safe_add(prefix .. "turn over", true, 1) then return end -- another worker does
    for _ = 1, PLACES do
      local name = most()
      local place, loser, use = least()
      if not name or waiting[name] <= 2 * use + 1 then return end
      if loser then dict:delete(key(loser)) end
      if not (dict:safe_set(place_key(place), name) and dict:safe_add(key(name), waiting[name])) then return end
      set_waiting(name, 0)
    end
  end

  return names
end

return M
