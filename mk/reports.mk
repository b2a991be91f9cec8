# make test-reports: opens reports of profiles in other programs: flame graphs in headless Chromium, perf.data files in perf,
# pprof files in go tool pprof; luaperf's completions in zsh and fish, and its manual page in mandoc and groff. On Debian, all of
# these but go are installed; a spec without its tool is skipped by name.
.PHONY: test-reports

test-reports: ## flame graphs in Chromium, perf.data in perf, pprof files in go tool pprof
	@tools/setup.sh reports
	@$(MAKE) -s LUA=luajit all testkit
	@BUILD=$(BUILD) SUITE_JOBS=1 SUITE_NAME=test-reports tools/suite.sh -l luajit spec/reports spec/live/command/completion_spec.lua
