// Package owners opens files and determines who can change them: the owners and modes of the file, of the directory in
// which it was found, of every directory above, and of the links on the way.
//
// owners.go has the rule, way_linux.go the way that the kernel takes from "/" to a file. On other systems
// (way_other.go) it reads modes only. The package imports the standard library and golang.org/x/sys. Start reading at
// owners.go.
package owners
