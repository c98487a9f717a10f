// Command plugin serves implementations for tests across a process boundary.
package main

import "github.com/cleat-dev/cleat/framework"

func main() {
	framework.Serve(registrations()...)
}
