# lua-perf: build, test, install.  `make help` lists the targets.
#
#   make                     build the module for LuaJIT (headers: luajit or luajit2)
#   make LUA=lua5.4          ... for another interpreter: luajit lua5.1 lua5.2 lua5.3 lua5.4
#   make SAN=1               ... with AddressSanitizer and UBSan, into build-san
#
# The core (csrc/core) does not use Lua and is compiled once; the binding (csrc/binding) is compiled for each interpreter. A file
# csrc/ext/COMPONENT/NAME.c is a separate Lua module, perf.ext.NAME, which is built if its library is installed;
# csrc/ext/COMPONENT/NAME_PART.c belongs to it.
#
#   $(BUILD)/core/*.o            the core, and libcore.a for the extensions
#   $(BUILD)/$(LUA)/obj/*.o      the binding
#   $(BUILD)/$(LUA)/perf/core.so, $(BUILD)/$(LUA)/perf/ext/NAME.so

LUA     ?= luajit
LUAS    := luajit lua5.1 lua5.2 lua5.3 lua5.4
CFLAGS  ?= -O2 -g
PREFIX  ?= /usr/local
PKG_CONFIG ?= pkg-config

ifdef SAN
BUILD     ?= build-san
SAN_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
else
BUILD     ?= build
endif
OUT := $(BUILD)/$(LUA)

# WERROR=1 makes warnings errors, as our CI does. A user's compiler may be newer than our code: there, warnings are only shown.
WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
        -Wpointer-arith -Wwrite-strings -Wundef $(if $(WERROR),-Werror)
# -fno-plt: a call of Lua's API jumps once, not twice. (Reading a field of a Record needs six calls.) All symbols are bound when
# the module is loaded, so the second jump gains nothing.
BASE := -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -fPIC -fno-plt -fvisibility=hidden -pthread $(WARN) \
        -Werror=implicit-function-declaration -Icsrc

# The interpreter's headers: LUA_INCDIR if it is set (LuaRocks sets it), else pkg-config under the names that distributions use.
# -isystem hides warnings about the headers' macros.
pc_luajit := luajit
pc_lua5.1 := lua5.1 lua-5.1 lua51
pc_lua5.2 := lua5.2 lua-5.2 lua52
pc_lua5.3 := lua5.3 lua-5.3 lua53
pc_lua5.4 := lua5.4 lua-5.4 lua54
first_pc   = $(firstword $(foreach p,$(pc_$(1)),$(shell $(PKG_CONFIG) --exists $(p) 2>/dev/null && echo $(p))))
ifdef LUA_INCDIR
LUA_CPPFLAGS := -isystem $(LUA_INCDIR)
else
lua_pc := $(call first_pc,$(LUA))
ifneq ($(lua_pc),)
LUA_CPPFLAGS := $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags-only-I $(lua_pc)))
endif
endif

CORE_C    := $(wildcard csrc/core/*/*.c)
SUITE     := $(wildcard spec/live spec/regress spec/unit)
BINDING_C := $(wildcard csrc/binding/*.c csrc/binding/*/*.c)
CORE_O    := $(CORE_C:csrc/core/%.c=$(BUILD)/core/%.o)
BINDING_O := $(BINDING_C:csrc/binding/%.c=$(OUT)/obj/%.o)

# Extensions, each with the library that it needs, and Debian's package of that library.
pkg_bpf := 'libbpf >= 1.0'
pkg_symbols := libdw
pkg_tracefields := libtraceevent
pkg_zstd := libzstd
hdr_pfm := perfmon/pfmlib_perf_event.h
lib_pfm := -lpfm
debian_bpf := libbpf-dev (1.0 or newer)
debian_symbols := libdw-dev
debian_tracefields := libtraceevent-dev
debian_zstd := libzstd-dev
debian_pfm := libpfm4-dev
hash      := \#
has_hdr    = $(shell echo '$(hash)include <$(1)>' | $(CC) $(CPPFLAGS) -E -x c - >/dev/null 2>&1 && echo yes)
ext_libs   = $(if $(hdr_$(1)),$(if $(call has_hdr,$(hdr_$(1))),$(lib_$(1))),\
               $(shell $(PKG_CONFIG) --libs $(pkg_$(1)) 2>/dev/null))
ext_cflags = $(if $(pkg_$(1)),$(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags-only-I $(pkg_$(1)) 2>/dev/null)))
EXT_ALL   := $(foreach n,$(basename $(notdir $(wildcard csrc/ext/*/*.c))),$(if $(findstring _,$(n)),,$(n)))
$(foreach n,$(EXT_ALL),$(eval libs_$(n) := $(call ext_libs,$(n))))

# perf.ext.outside has BPF programs, which clang compiles for the machine that CC compiles for, and which perf.ext.bpf loads.
CLANG     ?= clang
MACHINE   := $(shell $(CC) -dumpmachine 2>/dev/null)
BPF_FLAGS := -O2 -g -Wall $(if $(WERROR),-Werror) -target bpf -mcpu=v3 -D__TARGET_ARCH_$(if $(filter aarch64%,$(MACHINE)),arm64,x86) \
             -I/usr/include/$(MACHINE) -I/usr/$(MACHINE)/include -Icsrc
bpf_builds = $(shell $(CLANG) $(BPF_FLAGS) -fsyntax-only csrc/bpf/outside/snapshot.c >/dev/null 2>&1 && echo yes)
libs_outside := $(if $(strip $(libs_bpf)),$(if $(filter x86_64% aarch64%,$(MACHINE)),$(if $(bpf_builds),-lc)))
cflags_outside = -DPX_SNAPSHOT='"$(BUILD)/bpf/outside/snapshot.o"'
debian_outside := clang and libbpf-dev (1.0 or newer)
EXT       ?= $(foreach n,$(EXT_ALL),$(if $(strip $(libs_$(n))),$(n)))
EXT_SO    := $(EXT:%=$(OUT)/perf/ext/%.so)
EXT_LEFT  := $(filter-out $(EXT),$(EXT_ALL))

export MAKE
.DEFAULT_GOAL := all
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDEXPANSION:
.PHONY: all extensions headers left-out testkit builds env demo test test-long spec lint gcstress gcstress-short jitstress test-safe-points san check-version install uninstall \
        rock doc clean help

all: headers $(OUT)/perf/core.so extensions left-out ## build the module for $(LUA) (default)

# The list of missing extensions is printed when it changes, not by each make.
left-out:
	@[ "$$(cat $(BUILD)/left-out 2>/dev/null)" = "$(EXT_LEFT)" ] || { $(foreach e,$(EXT_LEFT),\
		echo "perf.ext.$e is left out: install $(debian_$e) to have it" >&2;) mkdir -p $(BUILD); echo "$(EXT_LEFT)" >$(BUILD)/left-out; }

# An extension that does not build is left out. Only our CI fails then.
extensions: headers $(OUT)/perf/core.so
	$(if $(EXT_SO),@+$(MAKE) -s -k $(EXT_SO) || { \
		$(foreach e,$(EXT),$(MAKE) -s $(OUT)/perf/ext/$e.so >/dev/null 2>&1 || { rm -f $(OUT)/perf/ext/$e.so; \
			echo "perf.ext.$e is left out: it does not build with the installed $(debian_$e)" >&2; };) \
		[ -z "$(WERROR)" ]; })

headers:
	$(if $(LUA_CPPFLAGS),@:,$(if $(filter $(LUA),$(LUAS)),,@echo "LUA=$(LUA) is none of: $(LUAS)" >&2; exit 1))
	$(if $(LUA_CPPFLAGS),,@echo "Nothing to build the module for $(LUA) with: its headers are not found." >&2; \
		LUA=$(LUA) tools/setup.sh -n build && echo "Set LUA_INCDIR to the directory of its lua.h." >&2; exit 1)

# Each file is written under another name and then moved, so that no process reads an incomplete file, and a running process keeps
# the module that it has mapped.
compile = @mkdir -p $(@D); echo "  CC    $@"; \
	$(CC) $(BASE) $(CPPFLAGS) $(SAN_FLAGS) $(CFLAGS) $(1) -MMD -MP -MT $@ -MF $@.$$$$.d -c $< -o $@.$$$$.o \
	&& mv $@.$$$$.d $(@:.o=.d) && mv $@.$$$$.o $@ || { rm -f $@.$$$$.*; exit 1; }
# nodelete: an object that is made while a Lua state closes may be finalized after the library would have been unloaded. Also, a
# sanitizer's report has no names for an unloaded library.
link    = @mkdir -p $(@D); echo "  LD    $@"; \
	$(CC) -shared -pthread $(SAN_FLAGS) $(CFLAGS) $(LDFLAGS) -Wl,-z,relro,-z,now,-z,nodelete -o $@.$$$$ $(1) \
	&& mv $@.$$$$ $@ || { rm -f $@.$$$$; exit 1; }

$(BUILD)/core/%.o: csrc/core/%.c Makefile
	$(call compile,)
$(OUT)/obj/%.o: csrc/binding/%.c Makefile | headers
	$(call compile,$(LUA_CPPFLAGS))
# The assembler includes these files, so the compiler's lists of dependencies lack them.
$(OUT)/obj/web_files.o: $(shell find lua -name '*.html' -o -name '*.css' -o -name '*.js')
$(OUT)/obj/lua_files.o: $(shell grep -o 'lua/perf/.*\.lua' csrc/binding/lua_files.c)
$(OUT)/ext/%.o: csrc/ext/%.c Makefile | headers
	$(call compile,$(LUA_CPPFLAGS) $(call ext_cflags,$(firstword $(subst _, ,$(notdir $*)))) $(cflags_$(notdir $*)))
$(BUILD)/bpf/%.o: csrc/bpf/%.c $(wildcard csrc/bpf/*/*.h csrc/core/outside/snapshot.h) Makefile
	@mkdir -p $(@D); echo "  BPF   $@"; $(CLANG) $(BPF_FLAGS) -c $< -o $@.$$$$ && mv $@.$$$$ $@ || { rm -f $@.$$$$; exit 1; }
$(OUT)/ext/outside/outside.o: $(BUILD)/bpf/outside/snapshot.o
$(OUT)/kit/%.o: spec/support/%.c Makefile | headers
	$(call compile,$(LUA_CPPFLAGS))

$(OUT)/perf/core.so: $(CORE_O) $(BINDING_O)
	$(call link,$^ -lm)
$(OUT)/testkit.so: $(patsubst spec/support/%.c,$(OUT)/kit/%.o,$(wildcard spec/support/*.c)) $(OUT)/obj/libbinding.a $(BUILD)/core/libcore.a
	$(call link,$^ -lm)
# Extensions link the parts of the core and the binding that they need from archives.
$(BUILD)/core/libcore.a: $(CORE_O)
	@rm -f $@.$$$$; $(AR) rcs $@.$$$$ $^ && mv $@.$$$$ $@
$(OUT)/obj/libbinding.a: $(BINDING_O)
	@rm -f $@.$$$$; $(AR) rcs $@.$$$$ $^ && mv $@.$$$$ $@
ext_objs = $(patsubst csrc/ext/%.c,$(OUT)/ext/%.o,$(wildcard csrc/ext/*/$(1).c csrc/ext/*/$(1)_*.c))
$(EXT_SO): $(OUT)/perf/ext/%.so: $$(call ext_objs,$$*) $(OUT)/obj/libbinding.a $(BUILD)/core/libcore.a
	$(call link,$^ $(libs_$*))

testkit: headers $(OUT)/testkit.so

# One make builds for all interpreters, so that no CPU is idle during the last steps of one of them. What the interpreters share is
# built first; otherwise several of them would build it at the same time.
BUILDS ?= $(LUAS)
builds: $(addprefix build-for-,$(BUILDS)) ## module and testkit for each interpreter that is installed with its headers
build-for-%: left-out $(BUILD)/core/libcore.a $(if $(filter outside,$(EXT)),$(BUILD)/bpf/outside/snapshot.o)
	@+command -v $* >/dev/null && $(MAKE) -s headers LUA=$* >/dev/null 2>&1 || exit 0; $(MAKE) -s LUA=$* all testkit

demo: ## install what is missing (Debian), build, run the demonstration
	$(if $(LUA_INCDIR)$(filter $(LUA),$(LUAS)),,@echo "LUA=$(LUA) is none of: $(LUAS)" >&2; exit 1)
	@LUA=$(LUA) tools/setup.sh demo
	@env=$$($(MAKE) -s env) && eval "$$env" && $(LUA) examples/demo.lua

env: ## print exports for LUA_PATH, LUA_CPATH and PATH (luaperf): eval "$$(make -s env)"
	@$(MAKE) -s all >&2
	@printf "export LUA_PATH='%s/lua/?.lua;%s/lua/?/init.lua;;'\n" "$$PWD" "$$PWD"
	@printf "export PATH='%s/bin':\"\$$PATH\"\n" "$$PWD"
	@printf "export LUA_CPATH='%s/?.so;;'\n" "$(if $(filter /%,$(OUT)),,$$PWD/)$(OUT)"

# --- tests: each is a script in tools/, whose head describes it -------------------------------------

test: ## install what is missing (Debian), lint, the suite without the longest specs on every interpreter found
	@BUILD=$(BUILD) tools/test.sh

test-long: ## what make test leaves out: the longest specs; long ones on Lua 5.1 to 5.3, others on Lua 5.4
	@[ -n "$$PERF_NO_SETUP" ] || tools/setup.sh test
	@$(MAKE) -s -j2 builds
	@BUILD=$(BUILD) SUITE_NAME=test-long SUITE_LONG=rest tools/suite.sh -l "$(LUAS)" $(SUITE)

spec: all testkit ## run SPEC=path (a file or a directory) on LUA, without set-up
	@BUILD=$(BUILD) tools/suite.sh -l $(LUA) $(or $(SPEC),$(SUITE))

lint: ## the checks that need no kernel
	@tools/lint.sh

gcstress: ## the suite with the collector at full pressure, on luajit and lua5.4
	@$(MAKE) -s -j2 builds BUILDS="luajit lua5.4"
	@BUILD=$(BUILD) PERF_GCSTRESS=1 SUITE_NAME=gcstress tools/suite.sh -l "luajit lua5.4" $(SUITE)

# The specs of the binding, whose C code allocates while the collector may run: a shorter run than gcstress. Specs of commands,
# spans, exporters and resty.perf are left out: these parts are in Lua or in other processes.
STRESS := $(addprefix spec/unit/,counts/counts_spec.lua record/record_spec.lua) spec/live/measure spec/live/event \
          $(addprefix spec/regress/,base counts data event measure pool process profile record stack symbols) \
          spec/live/whole/states_spec.lua spec/live/record/record_spec.lua spec/live/bpf/attach_spec.lua
gcstress-short: ## the same for the specs of measuring, rings and records
	@$(MAKE) -s gcstress SUITE="$(STRESS)"

jitstress: ## the suite with everything compiled at once, on luajit
	@$(MAKE) -s LUA=luajit all testkit
	@BUILD=$(BUILD) PERF_JITSTRESS=1 SUITE_NAME=jitstress tools/suite.sh -l luajit $(SUITE)

test-safe-points: ## the specs of profiles, with stacks taken at safe points
	@$(MAKE) -s -j2 builds BUILDS="luajit lua5.1 lua5.4"
	@BUILD=$(BUILD) PERF_SAFE_POINT=1 SUITE_NAME=safe-points tools/suite.sh -l "luajit lua5.1 lua5.4" \
		spec/live/profile spec/regress/profile

san: ## the suite under AddressSanitizer and UBSan, on luajit and lua5.4
	@CC="$(CC)" tools/san.sh

check-version: ## the rockspec and the changelog name the version of lua/perf/version.lua
	@tools/check-version.sh

# --- installation ---------------------------------------------------------------------------------

V      := $(if $(filter lua%.1 lua%.2 lua%.3 lua%.4,$(LUA)),$(LUA:lua%=%),5.1)
LUADIR ?= $(PREFIX)/share/lua/$(V)
LIBDIR ?= $(PREFIX)/lib/lua/$(V)
BINDIR ?= $(PREFIX)/bin
SHAREDIR ?= $(PREFIX)/share
LUA_FILES := $(patsubst lua/%,%,$(shell find lua -name '*.lua' | sort))
BIN_FILES := $(wildcard bin/luaperf)
# The manual page and the completions, each with the command that prints it.
PAGES  := man/man1/luaperf.1:manual bash-completion/completions/luaperf:completion=bash \
          zsh/site-functions/_luaperf:completion=zsh fish/vendor_completions.d/luaperf.fish:completion=fish
PAGE_FILES := $(foreach p,$(PAGES),$(firstword $(subst :, ,$p)))

install: all ## install under PREFIX (DESTDIR) for LUA
	@for d in "$(DESTDIR)$(LUADIR)" "$(DESTDIR)$(LIBDIR)" "$(DESTDIR)$(BINDIR)" "$(DESTDIR)$(SHAREDIR)"; do \
		at=$$d; while [ ! -e "$$at" ]; do at=$$(dirname "$$at"); done; \
		[ -w "$$at" ] || { echo "No permission to install in $$d: run make install as root, or with PREFIX=DIRECTORY" >&2; exit 1; }; done
	@set -e; for f in $(LUA_FILES); do install -D -m 644 "lua/$$f" "$(DESTDIR)$(LUADIR)/$$f"; done
	@set -e; for f in core $(EXT:%=ext/%); do [ ! -e "$(OUT)/perf/$$f.so" ] || \
		install -D -m 755 "$(OUT)/perf/$$f.so" "$(DESTDIR)$(LIBDIR)/perf/$$f.so"; done
	@set -e; for f in $(BIN_FILES); do install -D -m 755 "$$f" "$(DESTDIR)$(BINDIR)/$${f##*/}"; done
	@luaperf() { env -u LUA LUA_PATH="$$PWD/lua/?.lua;$$PWD/lua/?/init.lua;;" LUA_CPATH="$(abspath $(OUT))/?.so;;" bin/luaperf "$$@"; }; \
	 if luaperf --version >/dev/null 2>&1; then set -e; \
		for p in $(PAGES); do luaperf $$(echo "$${p#*:}" | tr = ' ') >"$(OUT)/page"; \
			install -D -m 644 "$(OUT)/page" "$(DESTDIR)$(SHAREDIR)/$${p%%:*}"; done; rm -f "$(OUT)/page"; \
	 else echo "The manual page and the completions are left out: no interpreter here loads the module to print them" >&2; fi

uninstall: ## remove what install put there, and the directories that are empty then
	@for d in "$(DESTDIR)$(LUADIR)/perf" "$(DESTDIR)$(LIBDIR)/perf"; do [ ! -d "$$d" ] || [ -w "$$d" ] || \
		{ echo "No permission to remove what is in $$d: run make uninstall as root" >&2; exit 1; }; done
	@for f in $(LUA_FILES); do rm -f "$(DESTDIR)$(LUADIR)/$$f"; done
	@for f in core $(EXT_ALL:%=ext/%); do rm -f "$(DESTDIR)$(LIBDIR)/perf/$$f.so"; done
	@for so in "$(DESTDIR)$(LIBDIR)"/../*/perf/core.so; do [ ! -e "$$so" ] || exit 0; done; \
		for f in $(BIN_FILES); do rm -f "$(DESTDIR)$(BINDIR)/$${f##*/}"; done; \
		for f in $(PAGE_FILES); do rm -f "$(DESTDIR)$(SHAREDIR)/$$f"; done # unless another interpreter has the module
	@dirs() { for d in $(sort $(dir $(LUA_FILES))); do echo "$(DESTDIR)$(LUADIR)/$${d%/}"; done; \
		for d in $(sort $(dir $(PAGE_FILES))); do echo "$(DESTDIR)$(SHAREDIR)/$${d%/}"; done; \
		echo "$(DESTDIR)$(LIBDIR)/perf/ext"; echo "$(DESTDIR)$(LIBDIR)/perf"; echo "$(DESTDIR)$(BINDIR)"; }; \
	 dirs | sort -r | while read -r d; do \
		while case $$d in ""|/usr|/usr/local|/usr/local/bin|/usr/local/lib|/usr/local/share|/usr/bin|/usr/lib|/usr/share| \
			/usr/share/man*|/usr/share/zsh*|/usr/share/fish*|/usr/share/bash*|/usr/local/share/man) false;; \
			/usr/local/share/zsh*) ! command -v zsh >/dev/null;; esac && \
			rmdir "$$d" 2>/dev/null; do d=$${d%/*}; done; done # Debian's zsh makes an empty directory in /usr/local

rock: ## what is installed works: rocks and make install, as an ordinary user, and leaves nothing when it is removed
	@tools/setup.sh rock
	@tools/rock.sh

doc: ## the reference of the public functions, methods and classes as HTML in build/doc
	@tools/setup.sh doc
	@tools/reference.sh

clean: ## remove what was built
	rm -rf build build-*

help: ## this list
	@sed -n 's/^\([a-z][a-z0-9-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | sed 's/\$$(LUA)/LUA/;s/\$$\$$/$$/' | \
	 while IFS="$$(printf '\t')" read -r t d; do printf '  %-17s %s\n' "$$t" "$$d"; done

-include $(wildcard $(BUILD)/core/*/*.d $(OUT)/obj/*.d $(OUT)/obj/*/*.d $(OUT)/ext/*/*.d $(OUT)/kit/*.d)
-include mk/*.mk
