module example.org/stock/disks

go 1.13

require (
	example.org/stock/library v0.0.0
	github.com/pkg/errors v0.8.1
	github.com/sirupsen/logrus v1.4.2
)

replace example.org/stock/library => ../library
