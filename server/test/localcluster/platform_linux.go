package main

import (
	"fmt"
	"syscall"
)

// childAttributes returns attributes that put a child into its own process group,
// so that Ctrl-C on the terminal does not reach it, and that make the kernel kill
// it when the thread that started it ends, even if the launcher is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// reservePort reserves a free TCP port of the loopback interface until release is
// called. The socket is bound but does not listen: a child can bind the port, even
// after a restart, but the kernel does not assign it to a process that requests any
// port or to an outgoing connection.
func reservePort() (port int, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("reserving a port: %w", err)
	}
	release = func() { _ = syscall.Close(fd) }
	defer func() {
		if err != nil {
			release()
		}
	}()
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, nil, fmt.Errorf("reserving a port: %w", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, nil, fmt.Errorf("reserving a port of 127.0.0.1: %w", err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, nil, fmt.Errorf("reserving a port: %w", err)
	}
	address, ok := name.(*syscall.SockaddrInet4)
	if !ok {
		return 0, nil, fmt.Errorf("reserving a port: the kernel returned %T, want an IPv4 address", name)
	}
	return address.Port, release, nil
}
