// Package fleet makes objects in the shape of Cluster API: clusters with machines, the definitions of their kinds, and an
// operator whose webhook refuses an object while what it refers to is missing. Tests and benchmarks restore them. Start
// reading at New.
package fleet
