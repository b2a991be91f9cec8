# make bench: this module, the bare system calls and other libraries side by side, on one CPU (doc/performance.md).
#
# The peers are fetched by their own package managers and built into build/bench. A peer that is not available is left out, and
# the report has the reason. BENCH_PEERS=0 leaves out all peers.
#
#   build/bench/NAME          a program: floor papi perf-event2 perf-utils linux-perf-data
#   build/bench/NAME.why      why there is none
#   build/bench/NAME.version  its version
#   build/bench/samples.data  what perf recorded, to be decoded

BENCH      := $(BUILD)/bench
BENCH_CPU  ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) - 1 )))
BENCH_PEER := $(if $(filter 0,$(BENCH_PEERS)),,papi perf-event2 perf-utils samples.data linux-perf-data)
BENCH_LUA  := luajit lua5.4
BENCH_RUN  ?= $(firstword $(foreach l,$(BENCH_LUA),$(shell command -v $(l) >/dev/null && echo $(l)))) # runs all programs

# attempt COMMANDS, REASON: run them; if they fail, leave out the peer and record the reason and the last line of output.
attempt = @mkdir -p $(BENCH); rm -f $@ $@.why $@.version; echo "  PEER  $(@F)"; \
	{ $(1); } >$@.log 2>&1 && [ -e $@ ] || { rm -f $@; echo "$(2) ($$(tail -n 1 $@.log | cut -c 1-120))" >$@.why; }

.PHONY: bench bench-build bench-profile bench-memory bench-growth
bench: bench-build ## speed against C and other libraries, min and median of many rounds; BENCH_ROWS, BENCH_ONLY choose
	@LUA_PATH='./?.lua;./lua/?.lua;./lua/?/init.lua;;' LUA_CPATH='$(BUILD)/$(strip $(BENCH_RUN))/?.so;;' \
		BUILD=$(BUILD) BENCH_RUN=$(strip $(BENCH_RUN)) taskset -c $(BENCH_CPU) $(BENCH_RUN) bench/run.lua

bench-profile: ## what profiling costs: plain runs, this profiler and LuaJIT's own in turns; then the signal handler alone
	@$(MAKE) -s LUA=luajit all testkit
	@LUA_PATH='./lua/?.lua;./lua/?/init.lua;;' LUA_CPATH='$(BUILD)/luajit/?.so;;' taskset -c $(BENCH_CPU) luajit bench/profile.lua
	@LUA_PATH='./lua/?.lua;./lua/?/init.lua;;' LUA_CPATH='$(BUILD)/luajit/?.so;;' taskset -c $(BENCH_CPU) luajit bench/handler.lua

bench-memory: ## what profiling Lua's memory costs, and how exact its estimates are
	@$(MAKE) -s LUA=luajit all testkit
	@LUA_PATH='./lua/?.lua;./lua/?/init.lua;;' LUA_CPATH='$(BUILD)/luajit/?.so;;' taskset -c $(BENCH_CPU) luajit bench/memory.lua

bench-growth: $(BENCH)/samples.data ## how costs grow with events, rings, threads, routes, queued spans and a file of 1 GB
	@$(MAKE) -s LUA=luajit all
	@LUA_PATH='./lua/?.lua;./lua/?/init.lua;;' LUA_CPATH='$(BUILD)/luajit/?.so;;' BUILD=$(BUILD) taskset -c $(BENCH_CPU) luajit bench/growth.lua

bench-build: $(BENCH)/floor
	@[ -n "$(PERF_NO_SETUP)$(filter 0,$(BENCH_PEERS))" ] || tools/setup.sh bench || echo "what is missing is left out" >&2
	@for l in $(BENCH_LUA); do $(MAKE) -s LUA=$$l all testkit || echo "$$l is left out" >&2; done
	@for p in $(BENCH_PEER); do $(MAKE) -s $(BENCH)/$$p; done

$(BENCH)/floor: bench/floor.c mk/bench.mk
	@mkdir -p $(@D); echo "  CC    $@"; $(CC) -std=c11 -D_GNU_SOURCE -O2 $(WARN) -o $@ $<

$(BENCH)/papi: bench/peers/papi.c mk/bench.mk
	$(call attempt,$(CC) -std=c11 -D_GNU_SOURCE -O2 -o $@ $< -lpapi && \
		printf '%s\n' "$$(dpkg-query -W -f '$${Version}' libpapi-dev 2>/dev/null || echo found)" >$@.version,libpapi-dev is not installed)

# A crate of bench/peers, built in a separate copy; its version is that in its Cargo.toml.
crate = rm -rf $(BENCH)/crate/$(1) && mkdir -p $(BENCH)/crate && cp -r bench/peers/$(1) $(BENCH)/crate/ && \
	cargo build -q --release --manifest-path $(BENCH)/crate/$(1)/Cargo.toml --target-dir $(BENCH)/cargo && \
	cp $(BENCH)/cargo/release/$(1)-contestant $@ && \
	sed -n 's/^$(1) = "=\(.*\)"/\1/p' bench/peers/$(1)/Cargo.toml >$@.version

$(BENCH)/perf-event2 $(BENCH)/linux-perf-data: $(BENCH)/%: bench/peers/%/src/main.rs bench/peers/%/Cargo.toml mk/bench.mk
	$(call attempt,$(call crate,$*),no cargo or no crates)

$(BENCH)/perf-utils: bench/peers/perf-utils/main.go bench/peers/perf-utils/go.mod mk/bench.mk
	$(call attempt,out=$$PWD/$@ && (cd bench/peers/perf-utils && GOTOOLCHAIN=local go build -o "$$out" .) && \
		sed -n 's/.*perf-utils v/v/p' bench/peers/perf-utils/go.mod >$@.version,no go or no modules)

$(BENCH)/samples.data: mk/bench.mk | $(BENCH)/floor
	$(call attempt,perf record -q -o $@ -e page-faults -c 1 -d -m 4096 -- $(BENCH)/floor faults 50000,perf record failed)
