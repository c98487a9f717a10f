package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// state are the files with which "up" and "down" find each other's cluster.
type state struct{ lock, cluster, log string }

// openState returns the files and, until it is closed, keeps other ups and downs out.
func openState(ctx context.Context) (state, *os.File, error) {
	root := os.Getenv("XDG_STATE_HOME")
	if root == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return state{}, nil, fmt.Errorf("no place to remember the cluster, set XDG_STATE_HOME or HOME: %w", err)
		}
		root = filepath.Join(home, ".local", "state")
	}
	dir := filepath.Join(root, "cleat", "localcluster")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return state{}, nil, fmt.Errorf("making the place to remember the cluster: %w", err)
	}
	s := state{lock: filepath.Join(dir, "lock"), cluster: filepath.Join(dir, "cluster.json"), log: filepath.Join(dir, "serve.log")}
	lock, err := lockFile(ctx, s.lock, func() {
		fmt.Fprintln(os.Stderr, "localcluster: waiting for another up or down")
	})
	return s, lock, err
}

// find returns the cluster that is up, with its lock file, or false.
func (s state) find() (description, *os.File, bool) {
	data, err := os.ReadFile(s.cluster)
	if err != nil {
		return description{}, nil, false
	}
	var d description
	if err := json.Unmarshal(data, &d); err != nil || d.PID <= 0 {
		return description{}, nil, false
	}
	lock, err := os.OpenFile(layout(d.Dir).lock, os.O_RDWR, 0)
	if err != nil {
		return description{}, nil, false
	}
	if err := tryLock(lock); !errors.Is(err, errStillLocked) {
		lock.Close() // its launcher was killed
		return description{}, nil, false
	}
	return d, lock, true
}

// up starts a cluster in the background, or finds the one that is up, and
// prints to stdout what a shell can evaluate.
func up(ctx context.Context, flags []string) error {
	s, stateLock, err := openState(ctx)
	if err != nil {
		return err
	}
	defer stateLock.Close()
	d, lock, found := s.find()
	if found {
		lock.Close()
		fmt.Fprintln(os.Stderr, "localcluster: is up already; its flags stay as they were")
	} else if d, err = s.launch(ctx, flags); err != nil {
		return err
	}
	for _, line := range d.environment() {
		name, value, _ := strings.Cut(line, "=")
		fmt.Printf("export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	fmt.Fprintf(os.Stderr, "# localcluster: up, logs in %s; to use it: eval \"$(localcluster up)\"; to end it: localcluster down\n", filepath.Join(d.Dir, "logs"))
	return nil
}

// launch starts "serve" in a session of its own and waits until it has
// recorded its cluster.
func (s state) launch(ctx context.Context, flags []string) (description, error) {
	self, err := os.Executable()
	if err != nil {
		return description{}, fmt.Errorf("finding this program: %w", err)
	}
	if err := os.Remove(s.cluster); err != nil && !errors.Is(err, os.ErrNotExist) {
		return description{}, fmt.Errorf("forgetting a cluster that was killed: %w", err)
	}
	log, err := os.Create(s.log)
	if err != nil {
		return description{}, fmt.Errorf("opening the log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(self, append([]string{"serve", "-record", s.cluster}, flags...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return description{}, fmt.Errorf("starting the cluster: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		if d, lock, found := s.find(); found {
			lock.Close()
			return d, nil
		}
		select {
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended just now
			<-ended
			return description{}, context.Cause(ctx)
		case err := <-ended:
			said, _ := tail(s.log, 30) // the exit says enough if there is none
			return description{}, fmt.Errorf("the cluster did not start (%v):\n%s", err, said)
		case <-tick.C:
		}
	}
}

// down stops the cluster that is up and returns when nothing of it is left.
func down(ctx context.Context) error {
	s, stateLock, err := openState(ctx)
	if err != nil {
		return err
	}
	defer stateLock.Close()
	d, lock, found := s.find()
	if !found {
		fmt.Fprintln(os.Stderr, "localcluster: no cluster is up")
		return errors.Join(sweep(os.TempDir()), removeIfThere(s.cluster), removeIfThere(s.log))
	}
	defer lock.Close()
	if err := syscall.Kill(d.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping process %d: %w", d.PID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 6*stopGrace)
	defer cancel()
	if err := awaitLock(ctx, lock); err != nil {
		return fmt.Errorf("process %d does not stop: %w", d.PID, err)
	}
	return errors.Join(removeIfThere(s.cluster), removeIfThere(s.log))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
