# resty.perf in a real nginx: Debian's, with its Lua module (doc/openresty.md).
.PHONY: test-nginx soak-nginx judge-nginx demo-nginx bench-nginx

test-nginx: ## resty.perf in a real nginx, under load: counts of requests to the unit
	@BUILD=$(BUILD) tools/nginx/test.sh

soak-nginx: ## a million requests with reloads, aborts and a killed worker
	@BUILD=$(BUILD) SOAK=1000000 SUITE_TIMEOUT=7200 NGINX_SPECS=spec/nginx/soak_spec.lua tools/nginx/test.sh

judge-nginx: ## handlers of known cost, through reloads, an upgrade and killed workers: every count is compared; SECONDS=30
	@tools/setup.sh nginx && $(MAKE) -s LUA=luajit all testkit
	@BUILD=$(BUILD) LUA_CPATH='$(BUILD)/luajit/?.so;;' luajit tools/nginx/judge.lua

demo-nginx: ## the example nginx.conf under load for five seconds, and what it counted; KEEP=1 leaves it running
	@BUILD=$(BUILD) tools/nginx/demo.sh

bench-nginx: ## what counting every request, or one of 100, costs an nginx
	@tools/setup.sh nginx && $(MAKE) -s LUA=luajit all testkit
	@BUILD=$(BUILD) LUA_CPATH='$(BUILD)/luajit/?.so;;' luajit bench/nginx.lua
