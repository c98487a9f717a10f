package conformance_test

import (
	"testing"

	"github.com/cleat-dev/cleat/framework/conformance"
	"github.com/cleat-dev/cleat/framework/plugintest"
)

// testConformance checks all rules that apply to the plugin in the current directory.
func testConformance(t *testing.T) {
	conformance.Test(t, conformance.Binary(plugintest.Build(t, ".")))
}

// A plugin's tests call testConformance.
func ExampleTest() { _ = testConformance }
