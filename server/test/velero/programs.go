package velero

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/cleat-dev/cleat/server/test/programs"
)

// Version is the version of Velero in the module of the programs.
const Version = "v1.18.3"

// The packages of the programs, each named after its program.
const (
	serverPackage = "github.com/vmware-tanzu/velero/cmd/velero"
	helperPackage = "github.com/vmware-tanzu/velero/cmd/velero-restore-helper"
	pluginPackage = "github.com/vmware-tanzu/velero-plugin-for-aws/velero-plugin-for-aws"
	// uploaderPackage uses Velero's library for repositories of kopia.
	uploaderPackage = "./uploader"
	// settingsPackage uses its commands and the types of its ConfigMaps.
	settingsPackage = "./settings"
)

// linkFlags set the version, and switch off an endpoint of controller-runtime that Velero does not use and that would
// take port 8080.
const linkFlags = "-s -w -X github.com/vmware-tanzu/velero/pkg/buildinfo.Version=" + Version +
	" -X sigs.k8s.io/controller-runtime/pkg/metrics/server.DefaultBindAddress=0"

// Programs are the built programs.
type Programs struct {
	Velero    string // path of the server, which is the command line and the node agent as well
	Helper    string // path of the program in which restored pods wait
	PluginDir string // a directory that contains only the object store plugin "aws"
	Uploader  string // path of the program in programs/uploader
	Settings  string // path of the program in programs/settings
}

// Get returns the programs. It skips t if they have not been built.
func Get(t testing.TB) *Programs {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs Velero")
	}
	module, dir, err := locate()
	if err != nil {
		t.Fatal(err)
	}
	p, err := programsIn(module, dir)
	if err != nil {
		t.Fatal(err)
	}
	if !p.built() {
		t.Skipf("Velero %s is not built: run \"make velero\" (%s)", Version, module)
	}
	return p
}

// Build returns the programs, and builds those that are not there. It writes the output of the compiler to out.
func Build(ctx context.Context, out io.Writer) (*Programs, error) {
	module, dir, err := locate()
	if err != nil {
		return nil, err
	}
	p, err := programsIn(module, dir)
	if err != nil {
		return nil, err
	}
	for _, program := range []struct{ path, pkg, flags string }{
		{filepath.Join(p.PluginDir, filepath.Base(pluginPackage)), pluginPackage, "-s -w"},
		{p.Uploader, uploaderPackage, "-s -w"},
		{p.Settings, settingsPackage, "-s -w"},
		{p.Helper, helperPackage, "-s -w"},
		{p.Velero, serverPackage, linkFlags},
	} {
		if _, err := os.Stat(program.path); err == nil {
			continue
		}
		fmt.Fprintf(out, "building %s, once\n", program.pkg)
		cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", program.flags, "-o", program.path,
			program.pkg)
		cmd.Dir = module
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off", "CGO_ENABLED=0", "GOOS="+runtime.GOOS,
			"GOARCH="+runtime.GOARCH)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("build %s: %w", program.pkg, err)
		}
	}
	return p, nil
}

// programsIn returns the programs in the directory for a module. Those in the module are built again when their source
// changes.
func programsIn(module, dir string) (*Programs, error) {
	p := &Programs{
		Velero: filepath.Join(dir, "velero"), Helper: filepath.Join(dir, filepath.Base(helperPackage)),
		PluginDir: filepath.Join(dir, "plugins"),
	}
	for pkg, path := range map[string]*string{uploaderPackage: &p.Uploader, settingsPackage: &p.Settings} {
		source, err := os.ReadFile(filepath.Join(module, pkg, "main.go"))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(source)
		*path = filepath.Join(dir, filepath.Base(pkg)+"-"+hex.EncodeToString(sum[:8]))
	}
	return p, nil
}

// built reports whether all programs are there.
func (p *Programs) built() bool {
	for _, path := range []string{p.Velero, p.Helper, p.PluginDir, p.Uploader, p.Settings} {
		if _, err := os.Stat(path); err != nil {
			return false
		}
	}
	return true
}

// locate returns the directory of the module of the programs, and the directory of the programs that are built from
// its present content.
func locate() (module, built string, err error) {
	root, err := programs.Root()
	if err != nil {
		return "", "", err
	}
	module = filepath.Join(root, "server", "test", "velero", "programs")
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s %s %s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, linkFlags)
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", "", err
		}
		sum.Write(content)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", fmt.Errorf("no directory for built programs, set XDG_CACHE_HOME or HOME: %w", err)
	}
	return module, filepath.Join(cache, "cleat", "velero", Version+"-"+hex.EncodeToString(sum.Sum(nil)[:8])), nil
}
