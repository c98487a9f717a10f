package holds_test

import (
	"os"
	"testing"

	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
)

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }
