// Package loadkey has the keys with which loads are signed, see framework/loadproof: the key of each backup and restore
// is derived from that of the installation, see package signing. After that was replaced, the loads that are at work by
// then are refused.
package loadkey
