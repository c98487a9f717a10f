//go:build !linux

package main

import (
	"fmt"
	"net"
	"syscall"
)

// childAttributes put a child into a process group of its own. Only Linux ends
// the children of a launcher that was killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// reservePort asks the kernel for a free TCP port of the loopback interface.
// Only Linux can keep it reserved.
func reservePort() (port int, release func(), err error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, nil, fmt.Errorf("choosing a port of 127.0.0.1: %w", err)
	}
	defer listener.Close()
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, nil, fmt.Errorf("choosing a port: the listener gave %T for a TCP address", listener.Addr())
	}
	return address.Port, func() {}, nil
}
