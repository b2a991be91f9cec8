# Emulated machines with a PMU, kprobes and BPF: see tools/vm/test.sh and doc/vm.md.
.PHONY: test-vm test-arm64

test-vm: ## hardware counters, kprobes and BPF in emulated machines: VM="arm64 arm64-smp amd64"
	@tools/vm/test.sh $(VM)

test-arm64: ## the whole suite in an emulated arm64 machine, an hour or more: VM_SPECS=spec/unit VM_LUA=luajit
	@tools/vm/test.sh arm64-suite
