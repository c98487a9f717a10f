// Package hostpath finds and opens the volumes of pods in the directory in which the kubelet mounts them
// (/var/lib/kubelet/pods), with the paths of the node agent:
//
//	ROOT/POD-UID/volumes/PLUGIN/NAME             a directory
//	ROOT/POD-UID/volumes/kubernetes.io~csi/NAME/mount
//	ROOT/POD-UID/volumeDevices/PLUGIN/NAME       a link to a block device
//
// NAME is the name of the persistent volume if the pod has a claim, and otherwise the name of the volume in the pod.
//
// A volume is looked up once. The open volume stays the same, whatever its path leads to later, and links never lead to
// it or out of it.
//
// The package imports the standard library and golang.org/x/sys only.
package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Volume is an open volume of a pod. The zero value is none.
type Volume struct {
	Path  string // absolute, at the time of opening; for messages only
	Block bool   // a block device; otherwise a directory
	// File is the directory or the device. This descriptor can neither be read nor written (O_PATH).
	File *os.File
}

// ErrNotMounted is returned for a volume that the kubelet has not mounted, or not yet.
var ErrNotMounted = errors.New("the volume is not mounted on this node")

// Close closes the volume.
func (v Volume) Close() error {
	if v.File == nil {
		return nil
	}
	return v.File.Close()
}

const csiPlugin = "kubernetes.io~csi"

// Find opens the volume called name of the pod with a UID. The error wraps ErrNotMounted if there is no such volume.
func Find(root, podUID, name string) (Volume, error) {
	pods, err := open(root)
	if err != nil {
		return Volume{}, fmt.Errorf("the pods of the node are not accessible, mount the kubelet's directory of pods: %w", err)
	}
	defer func() { _ = pods.Close() }() // a directory
	if err := errors.Join(checkName(podUID), checkName(name)); err != nil {
		return Volume{}, err
	}
	for _, kind := range []string{"volumes", "volumeDevices"} {
		plugins, err := names(pods, path.Join(podUID, kind))
		if err != nil {
			return Volume{}, err
		}
		for _, plugin := range plugins {
			volume, err := find(pods, path.Join(podUID, kind, plugin, name), kind == "volumeDevices")
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return volume, err
		}
	}
	return Volume{}, fmt.Errorf("%w: no directory %s in %s", ErrNotMounted, name, filepath.Join(root, podUID))
}

// Directories opens the directories that the kubelet has mounted as volumes of the pod with a UID. Without such a pod,
// there are none.
func Directories(root, podUID string) ([]Volume, error) {
	if err := checkName(podUID); err != nil {
		return nil, err
	}
	pods, err := open(root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = pods.Close() }() // a directory
	plugins, err := names(pods, path.Join(podUID, "volumes"))
	if err != nil {
		return nil, err
	}
	var found []Volume
	for _, plugin := range plugins {
		of := path.Join(podUID, "volumes", plugin)
		volumes, err := names(pods, of)
		if err != nil {
			continue // not made by the kubelet
		}
		for _, name := range volumes {
			if volume, err := find(pods, path.Join(of, name), false); err == nil {
				found = append(found, volume)
			}
		}
	}
	return found, nil
}

func checkName(name string) error {
	if name == "" || name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return fmt.Errorf("%q is not the name of a directory", name)
	}
	return nil
}

// names returns the names in a subdirectory, none if it does not exist.
func names(in *os.File, directory string) ([]string, error) {
	opened, err := openBelow(in, directory, toRead)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }() // a directory
	return opened.Readdirnames(-1)
}

// find opens the volume at a path below the directory of pods. A directory must not be a link, which could lead to any
// place of the node.
func find(pods *os.File, at string, block bool) (Volume, error) {
	if !block && path.Base(path.Dir(at)) == csiPlugin {
		at = path.Join(at, "mount")
	}
	opened, err := openBelow(pods, at, toHold)
	if err != nil {
		return Volume{}, err
	}
	v := Volume{Path: filepath.Join(pods.Name(), at), Block: block, File: opened}
	info, err := opened.Stat()
	if err == nil && block && info.Mode().Type() == fs.ModeSymlink {
		// written by the kubelet: volumes have no files in this directory
		target, failed := follow(opened)
		_ = opened.Close()
		if failed != nil {
			return Volume{}, failed
		}
		v.File = target
		info, err = target.Stat()
	}
	switch {
	case err != nil:
	case block && info.Mode()&fs.ModeDevice == 0:
		err = fmt.Errorf("%s is not a block device", v.Path)
	case !block && !info.IsDir():
		err = fmt.Errorf("%s is not a directory", v.Path)
	default:
		return v, nil
	}
	return Volume{}, errors.Join(err, v.Close())
}
