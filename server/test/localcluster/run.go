package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// commandExit is the exit code of the user's command, which has reported its
// errors itself. A separate type distinguishes it from a failed build.
type commandExit int

func (e commandExit) Error() string {
	return fmt.Sprintf("the command ended with exit code %d", int(e))
}

// run starts a cluster, runs a command that uses it and stops the cluster. The
// error is a commandExit if the exit code of the command is not 0.
func run(ctx context.Context, programs map[string]string, o options, command []string) error {
	if len(command) == 0 {
		return errors.New("run: a command is missing, want for example: localcluster run -- kubectl get namespaces")
	}
	c, err := startCluster(ctx, programs, o, os.Stderr)
	if err != nil {
		return err
	}
	err = runRecorded(c.describe(), o.record, command)
	if stopErr := c.stop(); stopErr != nil {
		fmt.Fprintf(os.Stderr, "localcluster: stopping the cluster: %v\n", stopErr)
	}
	return err
}

// runRecorded runs the command with the cluster in its environment or, if file is not empty, with a file that
// describes it during the run.
func runRecorded(d description, file string, command []string) (err error) {
	if file == "" {
		return runCommand(command, d.environment())
	}
	if err := record(file, d); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file)) }()
	return runCommand(command, nil)
}

// runCommand runs the command. Signals do not end the launcher: those of the
// terminal reach the command directly, and the others are passed on.
func runCommand(command, environment []string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case err := <-done:
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				return commandExit(exitCode(exit))
			}
			return err
		case s := <-signals:
			_ = cmd.Process.Signal(s) // it may have exited
		}
	}
}

// exitCode returns the exit code that a shell would report.
func exitCode(err *exec.ExitError) int {
	if status, ok := err.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return err.ExitCode()
}
