package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/cleat-dev/cleat/server/test/controlplane"
)

// limit is the number of concurrent backups of the servers.
const limit = 3

// endTimeout limits the wait for everything to end after the last fault.
const endTimeout = 10 * time.Minute

func main() {
	o := options{}
	flag.StringVar(&o.cleat, "cleat", "bin/cleat", "path of the cleat binary")
	flag.StringVar(&o.plugins, "plugins", "bin/chaos-plugins", "plugin directory")
	flag.DurationVar(&o.duration, "for", 10*time.Minute, "how long faults are injected")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "decides the faults and the load")
	flag.StringVar(&o.work, "work", "", "directory for the logs of the servers, which is kept; a temporary one if empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

type options struct {
	cleat, plugins, work string
	duration             time.Duration
	seed                 uint64
}

func run(ctx context.Context, o options) (err error) {
	fmt.Printf("seed %d, for %s\n", o.seed, o.duration)
	cluster, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if o.work == "" {
		if o.work, err = os.MkdirTemp("", "cleat-chaos-"); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				err = os.RemoveAll(o.work)
			} else {
				fmt.Println("the logs of the servers are kept in", o.work)
			}
		}()
	}
	s, err := newSite(ctx, cluster, o)
	if err != nil {
		return err
	}
	defer s.close()
	rules, err := follow(ctx, s.client)
	if err != nil {
		return err
	}
	for _, server := range s.servers {
		go server.keep()
	}
	defer s.stopServers()

	storm, calm := context.WithTimeout(ctx, o.duration)
	defer calm()
	var both sync.WaitGroup
	load := newLoad(s, rand.New(rand.NewPCG(o.seed, 1)))
	faults := newFaults(s, rand.New(rand.NewPCG(o.seed, 2)))
	both.Go(func() { load.run(storm) })
	both.Go(func() { faults.run(storm) })
	both.Go(func() { show(storm, o.duration, load, faults) })
	both.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	s.heal()
	fmt.Printf("%d faults, %d backups, %d restores, %d deletions; waiting until all have ended\n", faults.total(),
		load.backups, load.restores, load.deletions)
	report, err := check(ctx, s, load)
	if err != nil {
		return err
	}
	report.print(faults)
	return errors.Join(rules.broken(), report.err())
}

// show shows the progress to the user.
func show(ctx context.Context, lasts time.Duration, l *load, f *faults) {
	if !term.IsTerminal(int(os.Stdout.Fd())) {
		return
	}
	for start := time.Now(); pause(ctx, time.Second); {
		fmt.Printf("\r\033[K%s of %s: %d faults, the last one: %s; %s", time.Since(start).Round(time.Second), lasts,
			f.total(), f.last(), l.state())
	}
	fmt.Println()
}

// pause waits for a time. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// print prints the actions and the results.
func (r *report) print(f *faults) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, name := range f.names() {
		fmt.Fprintf(w, "%s\t%d\n", name, f.count(name))
	}
	for _, end := range r.ends() {
		fmt.Fprintf(w, "%s\t%d\n", end.name, end.count)
	}
	fmt.Fprintf(w, "logs\t%s\n", filepath.Join(r.work, "*.log"))
	_ = w.Flush() // to standard output
}
