//go:build depends

// Package depends names what this module is for, so that `go mod tidy` keeps it.
package depends

import _ "github.com/kubeflow/spark-operator/v2/cmd/operator"
