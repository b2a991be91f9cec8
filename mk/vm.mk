# Emulated machines with a PMU, kprobes and BPF: see tools/vm/test.sh and doc/vm.md.
.PHONY: test-vm vm-build test-arm64 test-arm64-short

test-vm: ## hardware counters, kprobes and BPF in emulated machines: VM="arm64 arm64-smp arm64-puc amd64"
	@tools/vm/test.sh $(VM)

vm-build: ## what test-vm fetches and builds when it is first run, and nothing else
	@tools/vm/test.sh build $(VM)

test-arm64: ## the whole suite in an emulated arm64 machine, hours: VM_PARTS="stack profile" VM_LUA=luajit VM_SPECS=spec/unit
	@tools/vm/test.sh arm64-suite

test-arm64-short: ## the specs that depend on the machine most, in an emulated arm64 machine: some minutes
	@tools/vm/test.sh arm64-short
