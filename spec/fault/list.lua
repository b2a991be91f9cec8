--- A list of rows, and two ways to add to it. See inject.lua for the fields of a row.
-- @return rows, row(name, t), method(class, setup, list, needs)
return function()
  local rows = {}

  local function row(name, t)
    t.name = name
    rows[#rows + 1] = t
  end

  -- Methods of an object that `setup` makes, by name: a row, or the function that it runs.
  local function method(class, setup, list, needs)
    for name, t in pairs(list) do
      if type(t) == "function" then t = { run = t } end
      t.setup, t.needs = t.setup or setup, t.needs or needs
      row(class .. ":" .. name, t)
    end
  end

  return rows, row, method
end
