//go:build depends

// Package depends names what this module is for, so that `go mod tidy` keeps it.
package depends

import _ "sigs.k8s.io/kind"
