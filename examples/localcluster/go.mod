module github.com/cleat-dev/cleat/examples/localcluster

go 1.26.0
