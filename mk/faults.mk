# Injects a failure at each place of each public function that can fail: see spec/fault/inject.lua.
.PHONY: faults faults-short

# FAULTS=100000: at every place of a long run of calls or allocations, instead of 40 places
faults: ## each function with failing system calls, descriptors and allocations, on every interpreter: FAULTS=40
	@BUILD=$(BUILD) tools/faults.sh $(or $(FAULTS),40)

faults-short: ## the same at fewer places
	@BUILD=$(BUILD) tools/faults.sh 6
