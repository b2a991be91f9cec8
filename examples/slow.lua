-- A report of a shop's sales that takes longer than it should: doc/tutorial.md finds the reason. examples/fast.lua is the fix.
--
--     luaperf record examples/slow.lua && luaperf report
local SALES = tonumber(arg and arg[1]) or 10000

-- A day's sales, as text: "item17 4.25\n" ...
local function sales()
  local lines = {}
  for i = 1, SALES do lines[i] = ("item%d %d.25"):format(i * 7919 % 1000, i % 50) end
  return table.concat(lines, "\n") .. "\n"
end

local function parse(text)
  local list = {}
  for name, price in text:gmatch "(%S+) (%S+)\n" do list[#list + 1] = { name = name, price = tonumber(price) } end
  return list
end

local function totals(list)
  local by_name = {}
  for _, sale in ipairs(list) do by_name[sale.name] = (by_name[sale.name] or 0) + sale.price end
  return by_name
end

local function render(list, by_name)
  local page = ""
  for i, sale in ipairs(list) do
    page = page .. i .. ": " .. sale.name .. " at " .. sale.price .. ", in all " .. by_name[sale.name] .. "\n"
  end
  return page
end

local list = parse(sales())
local page = render(list, totals(list))
print(("%d sales, %d bytes"):format(#list, #page))
