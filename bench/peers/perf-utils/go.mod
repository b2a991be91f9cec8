module bench/perf-utils

go 1.21

require (
	github.com/hodgesds/perf-utils v0.7.0
	golang.org/x/sys v0.0.0-20211031064116-611d5d643895
)

require (
	go.uber.org/atomic v1.7.0 // indirect
	go.uber.org/multierr v1.6.0 // indirect
)
