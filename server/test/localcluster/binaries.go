package main

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// moduleFiles has a go.mod and a go.sum for each upstream project. They are separate modules, so that each program is
// built with the dependencies that its authors have chosen. An exception is csi.mod: modules that kubernetes.mod has
// too are replaced with the same versions, so that they are compiled once.
//
//go:embed binaries/*.mod binaries/*.sum
var moduleFiles embed.FS

// program describes how an executable is built.
type program struct {
	name    string // of the executable
	files   string // binaries/<files>.mod and .sum
	module  string // the module whose version is the program's
	pkg     string // the main package
	stamp   func(version string) string
	version string
}

const (
	progEtcd      = "etcd"
	progAPIServer = "kube-apiserver"
	progKCM       = "kube-controller-manager"
	progS3        = "versitygw"
	progScheduler = "kube-scheduler"
	progKubelet   = "kubelet"

	progSnapshotController = "snapshot-controller"
	progSnapshotter        = "csi-snapshotter"
	progProvisioner        = "csi-provisioner"
)

// pinnedPrograms returns the programs in the order in which they are built, with
// the versions in the module files.
func pinnedPrograms() ([]program, error) {
	kubernetes := func(version string) string {
		major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
		minor, _, _ = strings.Cut(minor, ".")
		const pkg = "k8s.io/component-base/version."
		return fmt.Sprintf("-X %[1]sgitVersion=%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s", pkg, version, major,
			minor)
	}
	version := func(version string) string { return "-X main.version=" + version }
	const (
		snapshotter = "github.com/kubernetes-csi/external-snapshotter/v8"
		provisioner = "github.com/kubernetes-csi/external-provisioner/v6"
	)
	list := []program{
		{name: progEtcd, files: "etcd", module: "go.etcd.io/etcd/server/v3", pkg: "go.etcd.io/etcd/server/v3",
			stamp: func(string) string { return "" }}, // the source of etcd contains its version
		{name: progS3, files: "versitygw", module: "github.com/versity/versitygw",
			pkg:   "github.com/versity/versitygw/cmd/versitygw",
			stamp: func(version string) string { return "-X main.Version=" + version }},
		{name: progAPIServer, files: "kubernetes", module: "k8s.io/kubernetes", pkg: "k8s.io/kubernetes/cmd/kube-apiserver",
			stamp: kubernetes},
		{name: progKCM, files: "kubernetes", module: "k8s.io/kubernetes",
			pkg: "k8s.io/kubernetes/cmd/kube-controller-manager", stamp: kubernetes},
		{name: progScheduler, files: "kubernetes", module: "k8s.io/kubernetes", pkg: "k8s.io/kubernetes/cmd/kube-scheduler",
			stamp: kubernetes},
		{name: progKubelet, files: "kubernetes", module: "k8s.io/kubernetes", pkg: "k8s.io/kubernetes/cmd/kubelet",
			stamp: kubernetes},
		{name: progSnapshotController, files: "csi", module: snapshotter, pkg: snapshotter + "/cmd/snapshot-controller",
			stamp: version},
		{name: progSnapshotter, files: "csi", module: snapshotter, pkg: snapshotter + "/cmd/csi-snapshotter", stamp: version},
		{name: progProvisioner, files: "csi", module: provisioner, pkg: provisioner + "/cmd/csi-provisioner", stamp: version},
	}
	for i := range list {
		mod, err := moduleFiles.ReadFile("binaries/" + list[i].files + ".mod")
		if err != nil {
			return nil, fmt.Errorf("reading the module file of %s: %w", list[i].name, err)
		}
		if list[i].version, err = requiredVersion(string(mod), list[i].module); err != nil {
			return nil, fmt.Errorf("binaries/%s.mod: %w", list[i].files, err)
		}
	}
	return list, nil
}

// requiredVersion returns the version of module in a go.mod file.
func requiredVersion(mod, module string) (string, error) {
	for line := range strings.Lines(mod) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == module && strings.HasPrefix(fields[1], "v") {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("%s is not required: want a line %q", module, module+" vX.Y.Z")
}

// cacheRoot returns the directory of built programs.
func cacheRoot() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no directory for built programs, set XDG_CACHE_HOME or HOME: %w", err)
	}
	return filepath.Join(dir, "cleat", "localcluster"), nil
}

// path returns the path of the built program below the cache root.
func (p program) path(root string) string {
	return filepath.Join(root, fmt.Sprintf("%s-%s-%s-%s", p.name, p.version, runtime.GOOS, runtime.GOARCH), p.name)
}

// executable reports whether path is a file that can be run.
func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// assets returns the programs in KUBEBUILDER_ASSETS: etcd, kube-apiserver and, if
// present, kube-controller-manager.
func assets(dir string) (map[string]string, error) {
	found := map[string]string{}
	if dir == "" {
		return found, nil
	}
	for _, name := range []string{progEtcd, progAPIServer, progKCM} {
		path := filepath.Join(dir, name)
		switch {
		case executable(path):
			found[name] = path
		case name != progKCM:
			return nil, fmt.Errorf("KUBEBUILDER_ASSETS=%s has no executable %s: unset it to build the program", dir, name)
		}
	}
	return found, nil
}
