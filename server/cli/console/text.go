package console

import (
	"io"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

type (
	writer = io.Writer
	object = client.Object
)

// printed returns what a document prints as text.
func printed(print func(writer) error) (string, error) {
	var text strings.Builder
	if err := print(&text); err != nil {
		return "", err
	}
	return layout.Printable(text.String()), nil
}
