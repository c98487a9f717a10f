package backupqueue

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/cleat-dev/cleat/server/controller/controllertest"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // lives in memory leave much garbage and need little memory
	os.Exit(controllertest.Main(m))
}
