package main

import (
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// stamp returns a timestamp, which may be invalid.
func stamp(seconds int64) *timestamppb.Timestamp { return &timestamppb.Timestamp{Seconds: seconds} }

func lasting(seconds int64) *durationpb.Duration { return &durationpb.Duration{Seconds: seconds} }
