package main

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// rawSerializer is enough for a client that never decodes what it gets.
var rawSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
