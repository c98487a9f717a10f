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

// commandExit is the exit code of the user's own command, which has said
// itself what there is to say. It is a type of its own because a failed build
// is the exit of a command too.
type commandExit int

func (e commandExit) Error() string {
	return fmt.Sprintf("the command ended with exit code %d", int(e))
}

// run starts a cluster, runs a command beside it and stops the cluster. The
// error is a commandExit when the command ran and did not exit with 0.
func run(ctx context.Context, programs map[string]string, o options, command []string) error {
	if len(command) == 0 {
		return errors.New("run: a command is missing, like: localcluster run -- kubectl get namespaces")
	}
	c, err := startCluster(ctx, programs, o, os.Stderr)
	if err != nil {
		return err
	}
	err = runBeside(c.describe(), command)
	if stopErr := c.stop(); stopErr != nil {
		fmt.Fprintf(os.Stderr, "localcluster: stopping the cluster: %v\n", stopErr)
	}
	return err
}

// runBeside runs the command to its end. It decides alone about signals: those
// of the terminal reach it anyway, the others are passed on.
func runBeside(d description, command []string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), d.environment()...)
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
			_ = cmd.Process.Signal(s) // it may have ended just now
		}
	}
}

// exitCode is how a shell would tell the end of a command.
func exitCode(err *exec.ExitError) int {
	if status, ok := err.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return err.ExitCode()
}
