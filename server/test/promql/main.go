// Command promql parses expressions of Prometheus with its own parser. It is a module of its own, because the parser
// has many dependencies.
//
// Each line of the input is an expression. For each, it prints a line with the names of its metrics. It fails if one
// is invalid.
package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	failed := false
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		names, err := metrics(lines.Text())
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", lines.Text(), err)
			failed = true
		}
		fmt.Println(strings.Join(names, " "))
	}
	if failed {
		os.Exit(1)
	}
}

// metrics returns the names of the metrics in an expression.
func metrics(text string) ([]string, error) {
	expression, err := parser.ParseExpr(text)
	if err != nil {
		return nil, err
	}
	var names []string
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok && !slices.Contains(names, selector.Name) {
			names = append(names, selector.Name)
		}
		return nil
	})
	return names, nil
}
