// Package owners opens files and says who can change them: who owns and can write to the file, to the directory in
// which it was found, to every directory above, and to the links on the way.
//
// owners.go has the rule, way_linux.go the way that the kernel takes from "/" to a file. Elsewhere (way_other.go) only
// modes are known. The package imports the standard library and golang.org/x/sys. Start reading at owners.go.
package owners
