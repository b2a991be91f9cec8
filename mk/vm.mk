# Emulated machines with a PMU, kprobes and BPF: see tools/vm/test.sh and doc/vm.md.
.PHONY: test-vm

test-vm: ## hardware counters, kprobes and BPF in emulated machines: VM="arm64 arm64-smp amd64"
	@tools/vm/test.sh $(VM)
