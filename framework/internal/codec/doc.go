// Package codec puts messages on the wire as gRPC does, without the copies that it makes of what is large in them. Host and
// plugin use it each for itself: the bytes are those of protobuf, and the other side sees no difference. Start reading at
// codec.go.
package codec
