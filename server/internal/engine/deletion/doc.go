// Package deletion calls the DeleteItemActions of plugins for the items of a backup, before its files are deleted. Start
// reading at Run.
//
// Like the engines of backup and restore, it takes everything as arguments and keeps no state.
package deletion
