package node

import (
	"fmt"
	"net"
	"syscall"
	"unsafe"
)

// request is an ifreq of netdevice(7).
type request struct {
	name  [16]byte
	value [24]byte
}

// addAddresses adds addresses to the loopback interface and brings it up. Pods reach them through the bridge, which a
// CNI plugin makes.
func addAddresses(addresses ...string) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("configuring the network: %w", err)
	}
	defer func() { _ = syscall.Close(fd) }()
	set := func(name string, command uintptr, value []byte) error {
		var r request
		copy(r.name[:], name)
		copy(r.value[:], value)
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), command, uintptr(unsafe.Pointer(&r))); errno != 0 {
			return fmt.Errorf("configuring the network interface %s: %w", name, errno)
		}
		return nil
	}
	if err := set("lo", syscall.SIOCSIFFLAGS, []byte{syscall.IFF_UP | syscall.IFF_RUNNING, 0}); err != nil {
		return err
	}
	for i, address := range addresses {
		alias := fmt.Sprintf("lo:%d", i+1)
		if err := set(alias, syscall.SIOCSIFADDR, socketAddress(address)); err != nil {
			return err
		}
		if err := set(alias, syscall.SIOCSIFNETMASK, socketAddress("255.255.255.255")); err != nil {
			return err
		}
	}
	return nil
}

// socketAddress returns a sockaddr_in without a port.
func socketAddress(ip string) []byte {
	return append([]byte{syscall.AF_INET, 0, 0, 0}, net.ParseIP(ip).To4()...) // of a little-endian machine
}
