// Command plugin serves implementations that behave in all the ways a test wants to see across a process border.
package main

import "github.com/cleat-dev/cleat/framework"

func main() {
	framework.Serve(registrations()...)
}
