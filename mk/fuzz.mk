# Fuzzes the parsers of untrusted data, and the tables of sampled blocks, under sanitizers. Each spec/fuzz/NAME_fuzz.c is
# a program that is linked with the core and the other files there; it takes a number of runs and a seed, and aborts if it finds a
# bug. The same seed gives the same runs.
# Each spec/fuzz/NAME_spec.lua fuzzes names of events and whole files from Lua, FUZZ_ROUNDS times.
FUZZ_RUNS ?= 1000000
FUZZ_ROUNDS ?= 100000
FUZZ_SEED ?= 1
FUZZ_C    := $(wildcard spec/fuzz/*_fuzz.c)
FUZZ_O    := $(patsubst spec/fuzz/%.c,$(BUILD)/fuzz/%.o,$(filter-out $(FUZZ_C),$(wildcard spec/fuzz/*.c)))
FUZZ_BIN  := $(FUZZ_C:spec/fuzz/%.c=$(BUILD)/fuzz/%)

.PHONY: fuzz fuzz-short fuzz-run $(FUZZ_BIN:%=%.run)

fuzz: ## the parsers of rings, records, files and names, and the tables of sampled blocks, under sanitizers: FUZZ_RUNS=1000000 FUZZ_ROUNDS=100000 FUZZ_SEED=1
	@$(MAKE) --no-print-directory -k -j2 -Otarget SAN=1 fuzz-run
	@FUZZ_ROUNDS=$(FUZZ_ROUNDS) FUZZ_SEED=$(FUZZ_SEED) SUITE_TIMEOUT=36000 SAN_LUAS=luajit SUITE_NAME=fuzz CC="$(CC)" tools/san.sh spec/fuzz

fuzz-short: ## the same, briefly
	@$(MAKE) --no-print-directory fuzz FUZZ_RUNS=200000 FUZZ_ROUNDS=3000

$(BUILD)/fuzz/%.o: spec/fuzz/%.c Makefile mk/fuzz.mk
	$(call compile,-Ispec/fuzz)
$(FUZZ_BIN): %: %.o $(FUZZ_O) $(BUILD)/core/libcore.a
	@echo "  LD    $@"
	@$(CC) -pthread $(SAN_FLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lm

# The programs run side by side, each with its output in one piece.
fuzz-run: $(FUZZ_BIN:%=%.run)
$(FUZZ_BIN:%=%.run): %.run: %
	@ASAN_OPTIONS=$${ASAN_OPTIONS:-allocator_may_return_null=0} $< $(FUZZ_RUNS) $(FUZZ_SEED)
	@[ -z "$$PERF_TOTALS" ] || echo "$(<F) 1 0 0" >>"$$PERF_TOTALS"

-include $(wildcard $(BUILD)/fuzz/*.d)
