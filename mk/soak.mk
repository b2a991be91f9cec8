# Long runs of everything at once: see spec/soak/soak.lua and profiled.lua.
.PHONY: soak soak-short ends

soak: ## everything at once for SOAK_SECONDS=3600, with figures: nothing may grow
	@BUILD=$(BUILD) tools/soak.sh $(or $(SOAK_SECONDS),3600)

soak-short: ## the same for a minute
	@BUILD=$(BUILD) tools/soak.sh 60

ends: ## ENDS=1000 ends of profiled programs on each interpreter: no crash, no profile lost
	@BUILD=$(BUILD) tools/ends.sh $(or $(ENDS),1000)
