.PHONY: test-portable

test-portable: ## 32-bit x86 and musl: what compiles, and the fuzz programs as 32-bit ones
	@tools/portable.sh
