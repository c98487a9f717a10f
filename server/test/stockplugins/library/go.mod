module example.org/stock/library

go 1.13

require (
	github.com/hashicorp/go-plugin v1.0.1
	github.com/pkg/errors v0.8.1
	github.com/sirupsen/logrus v1.4.2
	github.com/spf13/pflag v1.0.5
	google.golang.org/grpc v1.26.0
)
