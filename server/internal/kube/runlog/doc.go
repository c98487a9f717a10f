// Package runlog writes the log of one run, a backup or a restore. The lines of the engine, the plugins and the
// controllers go to the server's log and, compressed, to the log object that is stored with the other files of the run.
//
// Start reading at Log; Late has the lines that arrive after that object was stored. format.go has the two formats of
// Velero's log objects; item.go writes the line that each item of a run has. The package imports hclog, a compressor
// and jsontext.
package runlog
