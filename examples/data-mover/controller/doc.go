// Package controller works on DataTransfers. Any number of controllers may run: a transfer is worked on by the one that
// has claimed it, by an update that fails if another was faster. A controller writes the status of its transfers at
// least three times per lease, and stops work when it could not for two thirds of one. A transfer whose status has not
// changed for a lease has lost its controller: another claims it and continues.
//
// Start reading at reconcile.go, which decides; run.go does the work and writes the status; options.go puts it
// together.
package controller
