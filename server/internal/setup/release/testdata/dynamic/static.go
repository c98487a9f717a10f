//go:build !cgo

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "dynamic is built with CGO_ENABLED=1")
	os.Exit(1)
}
