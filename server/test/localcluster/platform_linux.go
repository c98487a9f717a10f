package main

import (
	"fmt"
	"syscall"
)

// childAttributes put a child into a process group of its own, so that a ^C on
// the terminal does not reach it, and let the kernel kill it when the thread
// that started it ends, be it by kill -9 of the whole launcher.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// reservePort asks the kernel for a free TCP port of the loopback interface and
// keeps it until release. The socket is bound and never listens: a child that
// asks for this very port gets it, also after a restart, while the kernel
// neither hands it to another who wants just any port nor uses it for an
// outgoing connection.
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
		return 0, nil, fmt.Errorf("reserving a port: the kernel gave %T for an IPv4 address", name)
	}
	return address.Port, release, nil
}
