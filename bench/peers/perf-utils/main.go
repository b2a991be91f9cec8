// The Go module perf-utils as a contestant; bench/contestants.lua says what is expected of it.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	perf "github.com/hodgesds/perf-utils"
	"golang.org/x/sys/unix"
)

var four = []uint64{unix.PERF_COUNT_SW_TASK_CLOCK, unix.PERF_COUNT_SW_PAGE_FAULTS,
	unix.PERF_COUNT_SW_CONTEXT_SWITCHES, unix.PERF_COUNT_SW_CPU_MIGRATIONS}

//go:noinline
func nothing() {}

func none(why interface{}) {
	fmt.Println("none", why)
	os.Exit(0)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func openEvent(config uint64) perf.Profiler {
	p, err := perf.NewProfiler(unix.PERF_TYPE_SOFTWARE, config, 0, -1)
	if err != nil {
		none(err)
	}
	return p
}

func openGroup() perf.GroupProfiler {
	attrs := make([]unix.PerfEventAttr, len(four))
	for i, config := range four {
		attrs[i] = unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: config}
	}
	g, err := perf.NewGroupProfiler(0, -1, 0, attrs...)
	if err != nil {
		none(err)
	}
	return g
}

func measureEvent(config uint64) func(int) {
	p := openEvent(config)
	var value perf.ProfileValue
	return func(n int) {
		for i := 0; i < n; i++ {
			must(p.Reset())
			must(p.Start())
			nothing()
			must(p.Stop())
			must(p.Profile(&value))
		}
	}
}

func first(config uint64) func(int) {
	return func(n int) {
		for i := 0; i < n; i++ {
			var value perf.ProfileValue
			p := openEvent(config)
			must(p.Start())
			nothing()
			must(p.Stop())
			must(p.Profile(&value))
			must(p.Close())
		}
	}
}

func runner(row string) func(int) {
	switch row {
	case "measure-event", "measure-one":
		return measureEvent(unix.PERF_COUNT_SW_TASK_CLOCK)
	case "measure-faults":
		return measureEvent(unix.PERF_COUNT_SW_PAGE_FAULTS)
	case "measure-group", "measure-list", "measure-default":
		g := openGroup()
		var value perf.GroupProfileValue
		return func(n int) {
			for i := 0; i < n; i++ {
				must(g.Reset())
				must(g.Start())
				nothing()
				must(g.Stop())
				must(g.Profile(&value))
			}
		}
	case "read-event":
		p := openEvent(unix.PERF_COUNT_SW_TASK_CLOCK)
		must(p.Start())
		var value perf.ProfileValue
		return func(n int) {
			for i := 0; i < n; i++ {
				must(p.Profile(&value))
			}
		}
	case "read-group":
		g := openGroup()
		must(g.Start())
		var value perf.GroupProfileValue
		return func(n int) {
			for i := 0; i < n; i++ {
				must(g.Profile(&value))
			}
		}
	case "first-event", "first-list":
		return first(unix.PERF_COUNT_SW_TASK_CLOCK)
	case "first-faults":
		return first(unix.PERF_COUNT_SW_PAGE_FAULTS)
	case "first-list4":
		return func(n int) {
			for i := 0; i < n; i++ {
				var value perf.GroupProfileValue
				g := openGroup()
				must(g.Start())
				nothing()
				must(g.Stop())
				must(g.Profile(&value))
				must(g.Close())
			}
		}
	}
	return nil
}

func main() {
	runtime.LockOSThread() // the events count this thread
	row := ""
	if len(os.Args) > 1 {
		row = os.Args[1]
	}
	run := runner(row)
	if run == nil {
		none("not measured for perf-utils")
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		n, err := strconv.Atoi(strings.TrimSpace(in.Text()))
		must(err)
		if n == 0 {
			break
		}
		start := time.Now()
		run(n)
		fmt.Println(time.Since(start).Nanoseconds())
	}
}
