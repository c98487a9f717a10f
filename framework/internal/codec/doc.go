// Package codec encodes and decodes gRPC messages without the copies that gRPC makes of large parts. Host and plugin
// use it independently: the bytes are those of protobuf, and the other side notices no difference. Start reading at
// codec.go.
package codec
