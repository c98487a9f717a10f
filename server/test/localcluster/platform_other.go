//go:build !linux

package main

import (
	"fmt"
	"net"
	"syscall"
)

// childAttributes returns attributes that put a child into its own process group.
// Only Linux can end the children of a killed launcher.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// reservePort returns a free TCP port of the loopback interface. Only Linux can
// reserve it.
func reservePort() (port int, release func(), err error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, nil, fmt.Errorf("choosing a port of 127.0.0.1: %w", err)
	}
	defer listener.Close()
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, nil, fmt.Errorf("choosing a port: the listener returned %T, want a TCP address", listener.Addr())
	}
	return address.Port, func() {}, nil
}
