// Package location has the commands about backup storage locations and volume snapshot locations. Start reading at
// location.go.
package location
