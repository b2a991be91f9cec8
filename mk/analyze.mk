.PHONY: analyze

analyze: ## gcc's and clang's static analyzers, and valgrind over damaged bytes
	@tools/analyze.sh
