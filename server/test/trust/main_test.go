package trust_test

import (
	"os"
	"testing"

	"github.com/cleat-dev/cleat/server/test/site"
)

func TestMain(m *testing.M) { os.Exit(site.Main(m)) }
