.PHONY: test-distros test-distros-root test-distros-turn

test-distros: ## the build, the suite, the rock and an installation on other Debian releases: RELEASES="trixie sid"
	@tools/distros.sh $(RELEASES)

test-distros-turn: ## the same in about 15 minutes: one release, another each day, on luajit and lua5.4
	@DISTRO_STEPS="demo doc install test user" DISTRO_SECONDS=720 PERF_LUAS="luajit lua5.4" tools/distros.sh turn

test-distros-root: ## makes only the root directory of that day's release, so that test-distros-turn finds it ready
	@DISTRO_STEPS=root tools/distros.sh turn
