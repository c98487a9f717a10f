// Package rules lists the rules of all kinds. The rules of a family of kinds are in a package below: announce (the
// process and what it announces), action, operation, storage, policy, and end (what a process leaves behind, and how it
// exits).
//
// The packages import suite, which performs the checks. operation imports action, and end imports all others, whose
// calls it repeats.
package rules
