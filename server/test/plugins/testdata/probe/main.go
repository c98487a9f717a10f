// Command probe is a plugin that tries actions which a program without rights must not be able to do, writes the
// results down, and then exits with an error or serves. The attempts are at the end of its file, after a line
// "probe:".
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-dev/cleat/framework"
	backupitemaction "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
)

// ending is the end of the file.
type ending struct {
	Marker string // file to create
	Read   string // file to read
	Dial   string // address to connect to
	Socket string // unix socket to connect to
	Secret string // text to look for in the environments of all processes
	Serve  bool   // as a plugin, instead of exiting with an error
	Hang   bool   // instead of anything else
}

type action struct {
	backupitemaction.BackupItemAction
}

func main() {
	var e ending
	file, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		_, text, _ := bytes.Cut(file, []byte("\nprobe"+":"))
		err = json.Unmarshal(text, &e)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "read the end of the file:", err)
		os.Exit(4)
	}
	if e.Hang {
		time.Sleep(time.Hour)
	}
	report := e.try()
	_ = os.WriteFile(e.Marker, []byte(strings.Join(report, "\n")), 0o644)
	fmt.Fprintln(os.Stderr, strings.Join(report, "\n"))
	if !e.Serve {
		os.Exit(3)
	}
	framework.Serve(backupitemaction.Register("example.io/probe",
		func(context.Context, *framework.Setup) (backupitemaction.BackupItemAction, error) {
			return action{}, nil
		}))
}

// try returns a line for each attempt.
func (e ending) try() []string {
	groups, _ := os.Getgroups()
	var names []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		names = append(names, name)
	}
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var capabilities [2]unix.CapUserData
	_ = unix.Capget(header, &capabilities[0])
	noNewPrivileges, _ := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	_, errRead := os.ReadFile(e.Read)
	marker, errWrite := os.Create(e.Marker)
	_ = marker.Close()
	return []string{
		fmt.Sprintf("user %d %d %v", os.Getuid(), os.Getgid(), groups),
		fmt.Sprintf("capabilities %x %x new %v", capabilities[0].Permitted, capabilities[1].Permitted, noNewPrivileges == 0),
		fmt.Sprintf("environment %s", strings.Join(names, " ")),
		fmt.Sprintf("network %v socket %v", dials("tcp", e.Dial), dials("unix", e.Socket)),
		fmt.Sprintf("read %v write %v others %v", errRead == nil, errWrite == nil, e.readsOthers()),
	}
}

func dials(network, address string) bool {
	conn, err := net.DialTimeout(network, address, 5*time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// readsOthers reports whether the environment of a process has the secret.
func (e ending) readsOthers() bool {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		if text, _ := os.ReadFile(path); e.Secret != "" && bytes.Contains(text, []byte(e.Secret)) {
			return true
		}
	}
	return false
}
