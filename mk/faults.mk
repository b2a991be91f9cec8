# Makes everything fail that can, in each public function: see spec/fault/inject.lua.
.PHONY: faults faults-short

# FAULTS=100000: at every place of a long run of calls or allocations, not at 40 of them
faults: ## each function with failing system calls, descriptors and allocations, on every interpreter: FAULTS=40
	@BUILD=$(BUILD) tools/faults.sh $(or $(FAULTS),40)

faults-short: ## the same at fewer places
	@BUILD=$(BUILD) tools/faults.sh 6
