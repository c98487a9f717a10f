// Package loadkey has the keys with which loads are signed, see framework/loadproof: the key of each backup and restore
// is derived from the key of the installation, see package signing. If that key is replaced, the running loads are
// refused.
package loadkey
