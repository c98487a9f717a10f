//go:build !unix

package console

func stayInBackground() {}
