// Package sealed is the object store cleat.dev/sealed, which stands in front of any other one and encrypts each object
// before it leaves the server.
//
// An object is a file of age (age-encryption.org/v1), encrypted for the recipients in the config of the location, so
// that the program age opens it without this server. Its content is in chunks of 64 KiB, each of which is authenticated
// before any of it is returned; the last one is marked, so that a cut object is found. Beside the recipients, its
// header has a stanza of the type cleat.dev/object:
//
//	-> cleat.dev/object RECIPIENT...
//	KEY
//
// KEY is the key of the object below the prefix of the location. The header is authenticated, so an object that was
// renamed or swapped is found, while a bucket can be copied as a whole. RECIPIENT are the public keys: the error about
// an object that no identity opens names them. Programs that do not know the stanza pass over it.
//
// Keys and sizes of objects are not secret. Everyone who knows a recipient can seal an object for it: sealing keeps
// what is stored from those who read the bucket, and does not show who has written it.
//
// The package may import framework and age. Start reading at store.go, then seal.go and keys.go.
package sealed
