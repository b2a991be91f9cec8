# Runs the suite beside busy loops, again and again, and with little memory: see tools/stress.sh.
.PHONY: stress

stress: ## the suite STRESS_RUNS=20 times beside busy loops, on each interpreter in turn, and once with 1 GiB; STRESS_PATHS
	@BUILD=$(BUILD) tools/stress.sh
