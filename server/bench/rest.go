package main

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// rawSerializer is the serializer of a client that never decodes responses.
var rawSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
