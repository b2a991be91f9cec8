.PHONY: test-distros

test-distros: ## the build, the suite, the rock and an installation on other Debian releases: RELEASES="trixie sid"
	@tools/distros.sh $(RELEASES)
