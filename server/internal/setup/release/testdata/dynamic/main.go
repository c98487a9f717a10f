// Command dynamic is a plugin that is linked dynamically, and that loads a library when it is asked something, as
// programs with the FIPS mode of OpenSSL do.
package main

// #cgo LDFLAGS: -ldl
// #include <dlfcn.h>
// #include <netdb.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"time"
	"unsafe"

	"github.com/cleat-dev/cleat/framework"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
)

func main() {
	framework.Serve(biav2.Register("example.io/dynamic",
		func(context.Context, *framework.Setup) (biav2.BackupItemAction, error) { return action{}, nil }))
}

type action struct{ biav2.ExecuteOnly }

// AppliesTo fails unless libraries can be loaded, and the files are there that they read.
func (action) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	for _, name := range []string{"libcrypto.so.3", "libssl.so.3", "libgcc_s.so.1", "libnss_dns.so.2"} {
		text := C.CString(name)
		defer C.free(unsafe.Pointer(text))
		if C.dlopen(text, C.RTLD_NOW) == nil {
			return framework.ResourceSelector{}, fmt.Errorf("load %s: %s", name, C.GoString(C.dlerror()))
		}
	}
	text := C.CString("https") // is in /etc/services
	defer C.free(unsafe.Pointer(text))
	if C.getservbyname(text, nil) == nil {
		return framework.ResourceSelector{}, fmt.Errorf("there is no service %s", C.GoString(text))
	}
	if _, err := time.LoadLocation("Europe/Lisbon"); err != nil {
		return framework.ResourceSelector{}, err
	}
	if _, err := user.Current(); err != nil {
		return framework.ResourceSelector{}, err
	}
	if _, err := os.Stat("/etc/ssl/certs/ca-certificates.crt"); err != nil {
		return framework.ResourceSelector{}, err
	}
	return framework.ResourceSelector{IncludedResources: []string{"secrets"}}, nil
}

func (action) Execute(_ context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	return biav2.NewExecuteOutput(input.Item), nil
}
