package main

import (
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// stamp is a time, which need not be one.
func stamp(seconds int64) *timestamppb.Timestamp { return &timestamppb.Timestamp{Seconds: seconds} }

func lasting(seconds int64) *durationpb.Duration { return &durationpb.Duration{Seconds: seconds} }
