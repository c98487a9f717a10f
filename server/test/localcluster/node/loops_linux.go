package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

// The requests of loop(4).
const (
	loopClear     = 0x4C01
	loopGetStatus = 0x4C05
)

// loopStatus is a loop_info64.
type loopStatus struct {
	device, inode uint64 // of the file of the loop device
	_             [216]byte
}

// removeLoops detaches the loop devices of files below a directory, and the devices with which the kubelet holds such
// devices.
func removeLoops(dir string) error {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		behind, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(behind), dir+"/") { // otherwise it vanishes by itself
			continue
		}
		device := loopDevice(file)
		var stat syscall.Stat_t
		if err := syscall.Stat(device, &stat); err != nil {
			continue
		}
		for _, other := range files {
			var status loopStatus
			if loopControl(loopDevice(other), loopGetStatus, unsafe.Pointer(&status)) == nil && status.device == stat.Dev &&
				status.inode == stat.Ino {
				errs = append(errs, loopControl(loopDevice(other), loopClear, nil))
			}
		}
		if err := loopControl(device, loopClear, nil); !errors.Is(err, syscall.ENXIO) { // it has vanished
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// loopDevice returns the device of a file in sysfs.
func loopDevice(file string) string { return filepath.Join("/dev", strings.Split(file, "/")[3]) }

func loopControl(device string, request uintptr, value unsafe.Pointer) error {
	file, err := os.Open(device)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), request, uintptr(value)); errno != 0 {
		return fmt.Errorf("detaching the loop device %s: %w", device, errno)
	}
	return nil
}
