// Package hostpath finds the volumes of pods in the directory in which the kubelet mounts them (/var/lib/kubelet/pods), as the node agent
// sees it:
//
//	ROOT/POD-UID/volumes/PLUGIN/NAME             a directory
//	ROOT/POD-UID/volumes/kubernetes.io~csi/NAME/mount
//	ROOT/POD-UID/volumeDevices/PLUGIN/NAME       a link to a block device
//
// NAME is that of the persistent volume if the pod has a claim, and otherwise that of the volume in the pod.
//
// The package imports the standard library only.
package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Volume is a volume as a process on the node can open it.
type Volume struct {
	Path  string // absolute
	Block bool   // whether it is a block device, or else a directory
}

// ErrNotMounted is returned for a volume that the kubelet has not mounted, or not yet.
var ErrNotMounted = errors.New("the volume is not mounted on this node")

const csiPlugin = "kubernetes.io~csi"

// Find returns the volume called name of the pod with a UID. The error wraps ErrNotMounted if there is none.
func Find(root, podUID, name string) (Volume, error) {
	if _, err := os.Stat(root); err != nil {
		return Volume{}, fmt.Errorf("the pods of the node are not accessible, mount the kubelet's directory of pods: %w", err)
	}
	if err := errors.Join(checkName(podUID), checkName(name)); err != nil {
		return Volume{}, err
	}
	pod := filepath.Join(root, podUID)
	for _, kind := range []string{"volumes", "volumeDevices"} {
		plugins, err := os.ReadDir(filepath.Join(pod, kind))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Volume{}, err
		}
		for _, plugin := range plugins {
			path := filepath.Join(pod, kind, plugin.Name(), name)
			volume, err := check(path, plugin.Name(), kind == "volumeDevices")
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return volume, err
		}
	}
	return Volume{}, fmt.Errorf("%w: no directory %s in %s", ErrNotMounted, name, pod)
}

// Directories returns the directories that the kubelet has mounted as volumes of the pod with a UID, none if there is no such pod.
func Directories(root, podUID string) ([]string, error) {
	if err := checkName(podUID); err != nil {
		return nil, err
	}
	var found []string
	names, err := filepath.Glob(filepath.Join(root, podUID, "volumes", "*", "*"))
	for _, name := range names {
		volume, err := check(name, filepath.Base(filepath.Dir(name)), false)
		if err == nil {
			found = append(found, volume.Path)
		}
	}
	return found, err
}

func checkName(name string) error {
	if name == "" || name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return fmt.Errorf("%q is not the name of a directory", name)
	}
	return nil
}

// check returns the volume at a path. A directory must be no link, which could lead to anywhere on the node.
func check(path, plugin string, block bool) (Volume, error) {
	if block {
		info, err := os.Stat(path)
		if err != nil {
			return Volume{}, err
		}
		if info.Mode()&fs.ModeDevice == 0 {
			return Volume{}, fmt.Errorf("%s is no block device", path)
		}
		return Volume{Path: path, Block: true}, nil
	}
	if plugin == csiPlugin {
		if _, err := os.Lstat(path); err != nil {
			return Volume{}, err
		}
		path = filepath.Join(path, "mount")
	}
	info, err := os.Lstat(path)
	if err != nil {
		return Volume{}, err
	}
	if !info.IsDir() {
		return Volume{}, fmt.Errorf("%s is no directory", path)
	}
	return Volume{Path: path}, nil
}
