package process

import (
	"bytes"
	"io"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/output"
)

// Lines go to the log of the run that they name. A line that names none goes to the only run for which the process
// works.
func TestLinesGoToTheRunThatTheyBelongTo(t *testing.T) {
	t.Parallel()
	const a, b, server = "run-a", "run-b", "server"
	call := func(run string) func(*callers) { return func(c *callers) { c.begin(calls.Caller{Run: run}) } }
	ended := func(run string) func(*callers) {
		return func(c *callers) {
			c.begin(calls.Caller{Run: run})
			c.end(calls.Caller{Run: run})
		}
	}
	waits := func(run string) func(*callers) {
		return func(c *callers) {
			c.begin(calls.Caller{Run: run, Waits: true})
			c.end(calls.Caller{Run: run, Waits: true})
			c.settle(run)
		}
	}
	settled := func(run string) func(*callers) {
		return func(c *callers) {
			ended(run)(c)
			c.settle(run)
		}
	}
	for name, test := range map[string]struct {
		before []func(*callers)
		run    string // that the line names
		want   string
	}{
		"a line that names its run":                       {run: a, want: a},
		"a line of a run without an open log":             {before: []func(*callers){call(a)}, run: "run-c", want: server},
		"a line during calls of another run":              {before: []func(*callers){call(b), call(b)}, run: a, want: a},
		"no call":                                         {want: server},
		"a call":                                          {before: []func(*callers){call(a)}, want: a},
		"two calls of one run":                            {before: []func(*callers){call(a), call(a)}, want: a},
		"calls of two runs":                               {before: []func(*callers){call(a), call(b)}, want: server},
		"a call of no run":                                {before: []func(*callers){call("")}, want: server},
		"a call, and one of no run":                       {before: []func(*callers){call(a), call("")}, want: server},
		"a call, after one of no run":                     {before: []func(*callers){ended(""), call(a)}, want: a},
		"a call of a run without an open log":             {before: []func(*callers){call("run-c")}, want: server},
		"a call that has ended a moment ago":              {before: []func(*callers){ended(a)}, want: a},
		"another call before that":                        {before: []func(*callers){ended(b), ended(a)}, want: server},
		"another call, whose lines are read":              {before: []func(*callers){settled(b), ended(a)}, want: a},
		"calls whose lines are read":                      {before: []func(*callers){settled(a)}, want: server},
		"a run that waits":                                {before: []func(*callers){waits(a)}, want: a},
		"a run that waits during a call of another":       {before: []func(*callers){waits(a), call(b)}, want: server},
		"a run that waits, whose log is closed, and call": {before: []func(*callers){waits("run-c"), call(b)}, want: b},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logs := map[string]*bytes.Buffer{a: {}, b: {}, server: {}}
			pool := NewPool(t.Context(), PoolConfig{Log: logTo(logs[server]), LogOf: func(run string) hclog.Logger {
				if log, open := logs[run]; open {
					return logTo(log)
				}
				return nil
			}})
			s := pool.Supervise(&Launch{Binary: &Binary{Path: "/plugins/p"}})
			for _, step := range test.before {
				step(&s.callers)
			}
			s.line(output.Line{Level: hclog.Info, Message: "a line", Run: test.run})
			for to, log := range logs {
				if to == test.want {
					require.Contains(t, log.String(), "a line", to)
				} else {
					require.Empty(t, log.String(), to)
				}
			}
		})
	}
}

func logTo(w io.Writer) hclog.Logger { return hclog.New(&hclog.LoggerOptions{Output: w}) }
