// Package controller works on DataTransfers. Any number of controllers may run. A controller claims a transfer by an
// update that fails if another one was faster, and then works on it. A controller writes the status of its transfers
// at least three times per lease, and stops work if it could not for two thirds of one. A transfer whose status has
// not changed for a lease has lost its controller: another one claims it and continues.
//
// Start reading at reconcile.go, which decides; run.go does the work and writes the status; options.go puts it
// together.
package controller
