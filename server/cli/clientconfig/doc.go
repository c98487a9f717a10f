// Package clientconfig has the commands about the configuration file of the client. Start reading at clientconfig.go.
package clientconfig
