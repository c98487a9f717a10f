// Package repo has the command about backup repositories, which hold the data of volumes.
package repo
