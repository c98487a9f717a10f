// Package rehearsal has the report of a rehearsal of a backup, which is stored beside it, and the summary of it,
// which annotations have.
//
//	Report  report.go   what came up, what did not, what was not tried, and how long all took
//	Summary summary.go  one line of it
//
// The server makes reports, and the command line shows them. The package imports the bounded decoder only.
package rehearsal
