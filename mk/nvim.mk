# The plugin for Neovim: see tools/nvim.sh and doc/neovim.md.
.PHONY: test-nvim

test-nvim: ## the plugin for Neovim, in Debian's Neovim and in a newer one
	@BUILD=$(BUILD) tools/nvim.sh
