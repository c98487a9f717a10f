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

// state has the files in which "up" records its cluster for "down".
type state struct{ lock, cluster, log string }

// openState returns the files and a lock against concurrent "up" and "down",
// which the caller closes.
func openState(ctx context.Context) (state, *os.File, error) {
	root := os.Getenv("XDG_STATE_HOME")
	if root == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return state{}, nil, fmt.Errorf("no directory to record the cluster in, set XDG_STATE_HOME or HOME: %w", err)
		}
		root = filepath.Join(home, ".local", "state")
	}
	dir := filepath.Join(root, "cleat", "localcluster")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return state{}, nil, fmt.Errorf("creating the directory to record the cluster in: %w", err)
	}
	s := state{lock: filepath.Join(dir, "lock"), cluster: filepath.Join(dir, "cluster.json"),
		log: filepath.Join(dir, "serve.log")}
	lock, err := lockFile(ctx, s.lock, func() {
		fmt.Fprintln(os.Stderr, "localcluster: waiting for another up or down")
	})
	return s, lock, err
}

// find returns the running cluster with its lock file, or false if there is none.
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

// up starts a cluster in the background, unless one is running, and prints its
// environment for a shell.
func up(ctx context.Context, flags []string) error {
	s, stateLock, err := openState(ctx)
	if err != nil {
		return err
	}
	defer stateLock.Close()
	d, lock, found := s.find()
	if found {
		lock.Close()
		fmt.Fprintln(os.Stderr, "localcluster: already running; its flags are not changed")
	} else if d, err = s.launch(ctx, flags); err != nil {
		return err
	}
	for _, line := range d.environment() {
		name, value, _ := strings.Cut(line, "=")
		fmt.Printf("export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	fmt.Fprintf(os.Stderr, "# localcluster: running, logs in %s; to use it: eval \"$(localcluster up)\"; to stop it: "+
		"localcluster down\n", filepath.Join(d.Dir, "logs"))
	return nil
}

// launch starts "serve" in a new session and waits until it has recorded its
// cluster.
func (s state) launch(ctx context.Context, flags []string) (description, error) {
	self, err := os.Executable()
	if err != nil {
		return description{}, fmt.Errorf("finding this program: %w", err)
	}
	if err := os.Remove(s.cluster); err != nil && !errors.Is(err, os.ErrNotExist) {
		return description{}, fmt.Errorf("removing the record of a killed cluster: %w", err)
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
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have exited
			<-ended
			return description{}, context.Cause(ctx)
		case err := <-ended:
			log, _ := tail(s.log, 30) // may be missing
			return description{}, fmt.Errorf("the cluster did not start (%v):\n%s", err, log)
		case <-tick.C:
		}
	}
}

// down stops the running cluster and waits until its files are removed.
func down(ctx context.Context) error {
	s, stateLock, err := openState(ctx)
	if err != nil {
		return err
	}
	defer stateLock.Close()
	d, lock, found := s.find()
	if !found {
		fmt.Fprintln(os.Stderr, "localcluster: no cluster is running")
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
