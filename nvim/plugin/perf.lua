-- The command :Perf. Everything else is loaded when it is used.
if vim.g.loaded_perf then return end
vim.g.loaded_perf = 1

vim.api.nvim_create_user_command("Perf", function(call) require "perf.nvim.command".run(call) end, {
  nargs = "*", bang = true, desc = "Profile Lua code in Neovim",
  complete = function(...) return require "perf.nvim.command".complete(...) end,
})
