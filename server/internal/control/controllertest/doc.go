// Package controllertest gives the tests of controllers a namespace of a real API server, and objects to put there.
//
// The test binary's TestMain calls Main; each test calls NewCluster. It may import the test control plane and package
// run; only tests import it.
package controllertest
