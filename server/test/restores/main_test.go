package restores_test

import (
	"os"
	"testing"

	"github.com/cleat-dev/cleat/server/test/site"
)

// kitchens is the control plane of tests that install and remove definitions.
var kitchens site.Plane

func TestMain(m *testing.M) { os.Exit(site.Main(m, kitchens.Stop)) }
